#include "grammar/languages/schema/compiler.h"

#include <algorithm>

#include "grammar/languages/schema/json_schema.h"
#include "grammar/languages/schema/widening.h"

namespace nibble::grammar {

namespace {

// Counts the work of a block, also of one that throws.
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
    : document_(schema, widened), options_(options), branches_(document_, builder_.expressions().fuel()) {
  branches_.is_impossible = [this](const Branch& branch, uint32_t depth) {
    return is_impossible(branch, depth);
  };
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
  std::shared_ptr<Grammar> grammar = builder_.build(root);
  return {std::move(grammar), std::move(warnings_)};
}

std::string SchemaCompiler::dearest_place() const {
  const auto dearest = std::max_element(work_.begin(), work_.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return dearest == work_.end() ? "" : document_.path_of(*dearest->first);
}

std::string SchemaCompiler::impossible_place() const {
  std::string deepest;
  const auto depth = [](const std::string& place) { return std::count(place.begin(), place.end(), '/'); };
  for (const auto& [terms, node] : values_) {
    if (builder_.is_productive(node)) continue;
    for (const Term& term : terms) {
      const bool is_false = term.schema->is_boolean();  // which an optional member may well be
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
  // The same terms are one rule in whatever order they come; its members come in the order in which they came first.
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
    return std::any_of(facts.excluded.begin(), facts.excluded.end(),
                       [&](const Json* other) { return *other == value; });
  };
  check_excluded(branch, facts.types);
  std::vector<Expression> words;
  if ((facts.types & kNullType) && !is_excluded(nullptr)) words.push_back(e.text("null"));
  for (const bool word : {true, false})
    if ((facts.types & kBooleanType) && !is_excluded(word)) words.push_back(e.text(word ? "true" : "false"));
  if (facts.types & kNumberTypes) words.push_back(number_expression(facts));
  std::vector<NodeId> choices;
  if (!words.empty()) choices.push_back(builder_.text_of(e.any_of(words)));
  if (facts.types & kStringType) choices.push_back(strings(facts));
  if (facts.types & kArrayType) choices.push_back(arrays(facts));
  if (facts.types & kObjectType) choices.push_back(objects(facts));
  return choices.empty() ? builder_.nothing() : builder_.choice(std::move(choices));
}

void SchemaCompiler::check_excluded(const Branch& branch, Types types) const {
  for (const Term& term : branch.terms) {
    if (term.sense != Term::Sense::kKeywordFails) continue;
    const Json& excluded = *SchemaDocument::find(*term.schema, term.keyword);
    const auto is_excluded = [&](const Json& value) {
      return value.is_structured() && (types & type_of_value(value));
    };
    if ((term.keyword == "const" && is_excluded(excluded)) ||
        (term.keyword == "enum" && std::any_of(excluded.begin(), excluded.end(), is_excluded)))
      document_.refuse_failure(*term.schema, term.keyword,
                               "an array or an object can't be excluded by its value");
  }
}

// Those of an enum that all else allows.
std::vector<const Json*> SchemaCompiler::listed_values(const Branch& branch, const Facts& facts) {
  std::vector<const Json*> values;
  enum_of_listed_ = facts.values_of;
  for (const Json* value : *facts.values) {
    builder_.expressions().fuel().spend(2);
    if ((facts.types & type_of_value(*value)) &&
        std::all_of(branch.terms.begin(), branch.terms.end(),
                    [&](const Term& term) { return may_hold(*value, term); }))
      values.push_back(value);
  }
  enum_of_listed_ = nullptr;
  return values;
}

Compiled compile_json_schema(const Json& schema, const SchemaOptions& options) {
  if (options.drops_unenforceable) return compile_widened(schema, options);
  return SchemaCompiler(schema, options).compile();
}

Compiled compile_json_object() { return compile_json_schema(any_object()); }

}  // namespace nibble::grammar
