#include "grammar/languages/schema/compiler.h"

#include <algorithm>

#include "grammar/languages/schema/json_schema.h"

namespace nibble::grammar {

SchemaCompiler::SchemaCompiler(const Json& schema, const SchemaOptions& options)
    : document_(schema), options_(options), branches_(document_, builder_.expressions().fuel()) {
  branches_.is_impossible = [this](const Branch& branch, uint32_t depth) {
    return is_impossible(branch, depth);
  };
}

Compiled SchemaCompiler::compile() {
  const NodeId root = value({{&document_.root()}});
  while (!open_.empty()) {
    const auto [terms, declared] = std::move(open_.back());
    open_.pop_back();
    std::vector<NodeId> choices;
    for (const Branch& branch : branches_.of(terms)) choices.push_back(values_of(branch));
    builder_.define(declared, choices.empty() ? builder_.nothing() : builder_.choice(std::move(choices)));
  }
  std::shared_ptr<Grammar> grammar = builder_.build(root);
  return {std::move(grammar), std::move(warnings_)};
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
  for (const Json* value : facts.excluded)
    if (value->is_structured() && (facts.types & type_of_value(*value)))
      document_.refuse(*value, "not", "an array or an object can't be excluded by its value");
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

// Those of an enum that all else allows.
std::vector<const Json*> SchemaCompiler::listed_values(const Branch& branch, const Facts& facts) {
  std::vector<const Json*> values;
  enum_of_listed_ = facts.values_of;
  for (const Json* value : *facts.values) {
    builder_.expressions().fuel().spend(2);
    if ((facts.types & type_of_value(*value)) &&
        std::all_of(branch.terms.begin(), branch.terms.end(),
                    [&](const Term& term) { return holds(*value, term); }))
      values.push_back(value);
  }
  enum_of_listed_ = nullptr;
  return values;
}

Compiled compile_json_schema(const Json& schema, const SchemaOptions& options) {
  return SchemaCompiler(schema, options).compile();
}

Compiled compile_json_object() {
  static const Json schema{{"type", "object"}};
  return compile_json_schema(schema);
}

}  // namespace nibble::grammar
