#include "grammar/languages/schema/compiler.h"

#include <algorithm>

#include "grammar/languages/one_line.h"

namespace nibble::grammar {

namespace {

// Adds to `spent` the fuel that is spent while this object exists, also if an exception ends its scope.
class Meter {
 public:
  Meter(const Fuel& fuel, uint64_t& spent) : fuel_(fuel), spent_(spent), left_(fuel.left()) {}
  ~Meter() { spent_ += left_ - fuel_.left(); }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

 private:
  const Fuel& fuel_;
  uint64_t& spent_;
  uint64_t left_;
};

const Json& any_object() {
  static const Json schema{{"type", "object"}};
  return schema;
}

}  // namespace

SchemaCompiler::SchemaCompiler(const Json& schema, const SchemaOptions& options,
                               const std::set<std::string>& widened)
    : document_(schema, widened),
      options_(options),
      branches_(document_, builder_.expressions().fuel(), warnings_) {
  branches_.is_impossible = [this](const Branch& branch, uint32_t depth) {
    return is_impossible(branch, depth);
  };
  branches_.is_found = [this](std::string_view name, const Json& of, const std::string& pattern,
                              bool is_negated) {
    return matches(std::string(name), regex({&of, "patternProperties", pattern, is_negated}));
  };
  branches_.is_name = [this](std::string_view name, const Json& of) { return holds(Json(name), of); };
}

Compiled SchemaCompiler::compile() {
  Terms whole{{&document_.root()}};
  if (options_.drops_unenforceable) whole.push_back({&any_object()});
  const NodeId root = value(std::move(whole));
  while (!open_.empty()) {
    const auto [terms, declared] = std::move(open_.back());
    open_.pop_back();
    const Meter meter(builder_.expressions().fuel(), work_[terms.front().schema]);
    std::vector<NodeId> choices;
    for (const Branch& branch : branches_.of(terms)) choices.push_back(values_of(branch));
    builder_.define(declared, choices.empty() ? builder_.nothing() : builder_.choice(std::move(choices)));
  }
  try {
    std::shared_ptr<Grammar> grammar = builder_.build(root);
    return {std::move(grammar), std::move(warnings_)};
  } catch (const NoText&) {
    branches_.check_complete();
    throw;
  }
}

std::string SchemaCompiler::dearest_place() const {
  const auto dearest =
      std::ranges::max_element(work_, [](const auto& a, const auto& b) { return a.second < b.second; });
  return dearest == work_.end() ? "" : document_.path_of(*dearest->first);
}

std::string SchemaCompiler::impossible_place() const {
  std::string deepest;
  const auto depth = [](const std::string& place) { return std::ranges::count(place, '/'); };
  for (const auto& [terms, node] : values_) {
    if (builder_.is_productive(node)) continue;
    for (const Term& term : terms) {
      // Skips the schema `false`, which is legitimate for an optional member.
      const bool is_false = term.schema->is_boolean();
      if (std::string place = document_.path_of(*term.schema); !is_false && depth(place) > depth(deepest))
        deepest = std::move(place);
    }
  }
  return deepest;
}

NodeId SchemaCompiler::value(Terms terms) {
  std::erase_if(terms, [](const Term& term) {
    return term.sense == Term::Sense::kHolds && SchemaDocument::is_true(*term.schema);
  });
  if (terms.empty()) return any_value();
  // Lists of the same assertions in different orders share a rule. The rule writes the members of an object
  // in the order of the first list that used it.
  Terms key = terms;
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [known, is_new] = values_.emplace(std::move(key), NodeId{});
  if (!is_new) return known->second;
  open_.emplace_back(std::move(terms), known->second = builder_.declare());
  return known->second;
}

NodeId SchemaCompiler::any_value() {
  if (any_value_) return *any_value_;
  any_value_ = builder_.declare();
  Expressions& e = builder_.expressions();
  builder_.define(
      *any_value_,
      builder_.choice(
          {builder_.json_string(Expression::kAnything, Encoding::kJsonStringFree, {}),
           builder_.text_of(e.any_of(
               std::vector{e.text("true"), e.text("false"), e.text("null"), plain_number(kNumberTypes)})),
           builder_.json_array({.first = {}, .rest = *any_value_}),
           builder_.json_object({.members = {}, .undeclared = {{Expression::kAnything, *any_value_}}})}));
  return *any_value_;
}

NodeId SchemaCompiler::values_of(const Branch& branch) {
  const Facts facts = facts_of(branch, document_, warnings_);
  if (facts.values) {
    std::vector<std::string> texts;
    for (const Json* value : listed_values(branch, facts)) texts.push_back(value->dump());
    return builder_.one_of(std::move(texts));
  }
  Expressions& e = builder_.expressions();
  const auto is_excluded = [&](const Json& value) {
    return std::ranges::any_of(facts.excluded, [&](const Json* other) { return *other == value; });
  };
  std::vector<Expression> words;
  if ((facts.types & kNullType) && !is_excluded(nullptr)) words.push_back(e.text("null"));
  for (const bool word : {true, false})
    if ((facts.types & kBooleanType) && !is_excluded(word)) words.push_back(e.text(word ? "true" : "false"));
  if (facts.types & kNumberTypes) words.push_back(number_expression(facts));
  std::vector<NodeId> choices;
  if (!words.empty()) choices.push_back(builder_.text_of(e.any_of(words)));
  if (facts.types & kStringType) choices.push_back(strings(facts));
  if (facts.types & kArrayType)
    for (const Facts& beside : beside_excluded(branch, facts, kArrayType))
      choices.push_back(arrays(branch, beside));
  if (facts.types & kObjectType)
    for (const Facts& beside : beside_excluded(branch, facts, kObjectType))
      choices.push_back(objects(beside));
  return choices.empty() ? builder_.nothing() : builder_.choice(std::move(choices));
}

// Returns the requirements of `facts` twice: for arrays or objects that are shorter than all excluded values,
// and for those that are longer.
std::vector<Facts> SchemaCompiler::beside_excluded(const Branch& branch, const Facts& facts, Types type) {
  uint32_t least = kUnlimited, most = 0;
  for (const Json* value : facts.excluded) {
    if (!value->is_structured() || type_of_value(*value) != type) continue;
    least = std::min(least, to_index(value->size()));
    most = std::max(most, to_index(value->size()));
  }
  if (least == kUnlimited) return {facts};
  const auto excluding = std::ranges::find_if(branch.terms, [](const Term& term) {
    return term.sense == Term::Sense::kKeywordFails && (term.keyword == "enum" || term.keyword == "const");
  });
  if (most > 0) leave_out(*excluding->schema, excluding->keyword);
  Facts fewer = facts, more = facts;
  if (type == kArrayType) {
    fewer.arrays.max = std::min(facts.arrays.max, least - 1);
    more.arrays.min = std::max(facts.arrays.min, most + 1);
  } else {
    fewer.objects.max = std::min(facts.objects.max, least - 1);
    more.objects.min = std::max(facts.objects.min, most + 1);
    more.objects.min_schema = excluding->schema;
    // Undeclared members may all have one name, so objects() can guarantee no more members than are declared.
    size_t num_declared = facts.objects.required.size();
    for (const Json* source : facts.objects.sources)
      if (const Json* properties = SchemaDocument::find(*source, "properties"))
        num_declared = std::max(num_declared, properties->size());
    if (most > num_declared) more.objects.min = kUnlimited;
  }
  std::vector<Facts> beside;
  if (least > 0) beside.push_back(std::move(fewer));
  if (more.objects.min != kUnlimited) beside.push_back(std::move(more));
  return beside;
}

void SchemaCompiler::leave_out(const Json& schema, std::string_view keyword) {
  const std::string warning = fmt::format("'{}' at #{}: some valid values are excluded", keyword,
                                          one_line(document_.path_of(schema)));
  if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
}

// Returns the values of an enum that all other assertions allow.
std::vector<const Json*> SchemaCompiler::listed_values(const Branch& branch, const Facts& facts) {
  std::vector<const Json*> values;
  enum_of_listed_ = facts.values_of;
  for (const Json* value : *facts.values) {
    builder_.expressions().fuel().spend(2);
    if ((facts.types & type_of_value(*value)) && may_hold(*value, branch.terms)) values.push_back(value);
  }
  enum_of_listed_ = nullptr;
  return values;
}

}  // namespace nibble::grammar
