#include "grammar/schema/branches.h"

#include <algorithm>
#include <cmath>

#include "grammar/schema/formats.h"

namespace nibble::grammar {
namespace {

constexpr size_t kMaxBranches{2'000};  // of one place in the schema
constexpr uint32_t kMaxDisjointDepth{4};

// Keywords that change what is valid and are not enforced.
constexpr std::string_view kRefused[]{"contains",     "dependentRequired", "dependentSchemas",
                                      "dependencies", "unevaluatedItems",  "unevaluatedProperties",
                                      "$dynamicRef",  "$recursiveRef"};

bool is_true_schema(const Json& schema) {
  return (schema.is_boolean() && schema.get<bool>()) || (schema.is_object() && schema.empty());
}

}  // namespace

Types type_of_value(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  if (value.is_number_float() && std::floor(value.get<double>()) != value.get<double>()) return kFractionType;
  return kIntegerType;
}

Types types_of(const SchemaDocument& document, const Json& schema) {
  const Json* type = SchemaDocument::find(schema, "type");
  if (type == nullptr) return kAllTypes;
  static const std::map<std::string, Types> kTypes{
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberTypes},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  Types types = 0;
  const auto add = [&](const Json& name) {
    const auto known = name.is_string() ? kTypes.find(name.get_ref<const std::string&>()) : kTypes.end();
    if (known == kTypes.end())
      document.refuse(schema, "type",
                      "it must be one or several of null, boolean, integer, number, string, array, object");
    types |= known->second;
  };
  if (type->is_array()) {
    for (const Json& name : *type) add(name);
  } else {
    add(*type);
  }
  return types;
}

std::vector<Branch> Branches::of(const Terms& terms) {
  Open start;
  for (const Term& term : terms) add(start, term, 0);
  std::vector<Branch> found;
  std::vector<Open> open;
  open.push_back(std::move(start));
  size_t num_made = 0;
  while (!open.empty()) {
    Open branch = std::move(open.back());
    open.pop_back();
    if (branch.is_dead || branch.branch.types == 0) continue;
    if (branch.choices.empty()) {
      std::sort(branch.branch.terms.begin(), branch.branch.terms.end());
      found.push_back(std::move(branch.branch));
      continue;
    }
    Alternatives alternatives = std::move(branch.choices.back());
    branch.choices.pop_back();
    drop_impossible(alternatives, branch.branch.types);
    if (alternatives.size() == 1) {
      for (const Term& term : alternatives[0]) add(branch, term, 0);
      open.push_back(std::move(branch));
      continue;
    }
    for (size_t i = alternatives.size(); i-- > 0;) {
      if (++num_made > kMaxBranches)
        document_.refuse(
            *terms.front().schema, "anyOf",
            "together with what stands beside it, it has too many alternatives; nest fewer of them");
      fuel_.spend(10 + branch.seen.size());
      Open next = branch;
      for (const Term& term : alternatives[i]) add(next, term, 0);
      open.push_back(std::move(next));
    }
  }
  return found;
}

// The types that a value must have for the keyword to fail.
Types Branches::types_of_failure(const Term& term) const {
  const std::string_view keyword = term.keyword;
  if (keyword == "type") return static_cast<Types>(kAllTypes & ~types_of(document_, *term.schema));
  if (keyword == "enum" || keyword == "const") return kAllTypes;
  if (keyword.ends_with("imum") || keyword == "multipleOf") return kNumberTypes;
  if (keyword.ends_with("Length") || keyword == "pattern") return kStringType;
  return keyword.ends_with("Items") ? kArrayType : kObjectType;
}

// Leaves out alternatives that the types alone rule out.
void Branches::drop_impossible(Alternatives& alternatives, Types types) const {
  std::erase_if(alternatives, [&](const Terms& terms) {
    return std::any_of(terms.begin(), terms.end(), [&](const Term& term) {
      return term.sense == Term::Sense::kKeywordFails && (types_of_failure(term) & types) == 0;
    });
  });
}

void Branches::choose(Open& open, Alternatives alternatives, uint32_t depth) {
  drop_impossible(alternatives, open.branch.types);
  if (alternatives.size() != 1) {
    if (alternatives.empty()) open.is_dead = true;
    open.choices.push_back(std::move(alternatives));
    return;
  }
  for (const Term& term : alternatives[0]) add(open, term, depth + 1);
}

void Branches::add(Open& open, const Term& term, uint32_t depth) {
  fuel_.spend();
  if (open.is_dead || !open.seen.insert(term).second) return;
  if (depth > kMaxDepth) document_.refuse(*term.schema, "$ref", "references lead on and on");
  switch (term.sense) {
    case Term::Sense::kHolds:
      return add_holding(open, *term.schema, depth);
    case Term::Sense::kFails:
      return add_failing(open, *term.schema, depth);
    case Term::Sense::kKeywordFails:
      open.branch.types &= types_of_failure(term);
      open.branch.terms.push_back(term);
      return;
  }
}

const Json& Branches::schema_at(const Json& schema, std::string_view keyword) const {
  const Json& found = *SchemaDocument::find(schema, keyword);
  if (!found.is_object() && !found.is_boolean())
    document_.refuse(schema, keyword, "it must be a schema: an object or a boolean");
  return found;
}

void Branches::check_keywords(const Json& schema) const {
  for (const std::string_view keyword : kRefused) {
    const Json* value = SchemaDocument::find(schema, keyword);
    if (value == nullptr || (keyword.starts_with("unevaluated") && is_true_schema(*value)) ||
        (keyword.starts_with("depend") && value->is_object() && value->empty()))
      continue;
    document_.refuse(schema, keyword, "this keyword is not supported; say it with others, or leave it out");
  }
}

void Branches::add_holding(Open& open, const Json& schema, uint32_t depth) {
  if (schema.is_boolean()) {
    open.is_dead |= !schema.get<bool>();
    return;
  }
  if (!schema.is_object()) document_.refuse(schema, "schema", "it must be an object or a boolean");
  check_keywords(schema);
  open.branch.types &= types_of(document_, schema);
  open.branch.terms.push_back({&schema});
  using Sense = Term::Sense;
  if (document_.text(schema, "$ref")) add(open, {&document_.target(schema)}, depth + 1);
  if (const Json* all = document_.list(schema, "allOf"))
    for (const Json& member : *all) add(open, {&member}, depth + 1);
  if (const Json* any = document_.list(schema, "anyOf")) {
    Alternatives alternatives;
    for (const Json& member : *any) alternatives.push_back({{&member}});
    choose(open, std::move(alternatives), depth);
  }
  if (document_.list(schema, "oneOf")) choose(open, exclusive(schema), depth);
  if (SchemaDocument::find(schema, "not")) add(open, {&schema_at(schema, "not"), Sense::kFails}, depth + 1);
  const bool has_then = SchemaDocument::find(schema, "then"), has_else = SchemaDocument::find(schema, "else");
  if (SchemaDocument::find(schema, "if") && (has_then || has_else)) {
    const Json& condition = schema_at(schema, "if");
    Alternatives alternatives{{{&condition}}, {{&condition, Sense::kFails}}};
    if (has_then) alternatives[0].push_back({&schema_at(schema, "then")});
    if (has_else) alternatives[1].push_back({&schema_at(schema, "else")});
    choose(open, std::move(alternatives), depth);
  }
}

// One alternative for each member of the oneOf: it holds, and those fail that could hold as well.
const Branches::Alternatives& Branches::exclusive(const Json& schema) {
  if (const auto known = exclusive_.find(&schema); known != exclusive_.end()) return known->second;
  const Json& members = *document_.list(schema, "oneOf");
  std::vector<std::vector<bool>> overlaps(members.size(), std::vector<bool>(members.size()));
  for (size_t i = 0; i < members.size(); ++i)
    for (size_t j = 0; j < i; ++j) overlaps[i][j] = overlaps[j][i] = !are_disjoint(members[i], members[j]);
  Alternatives alternatives;
  for (size_t i = 0; i < members.size(); ++i) {
    Terms terms{{&members[i]}};
    for (size_t j = 0; j < members.size(); ++j)
      if (overlaps[i][j]) terms.push_back({&members[j], Term::Sense::kFails});
    alternatives.push_back(std::move(terms));
  }
  return exclusive_.emplace(&schema, std::move(alternatives)).first->second;
}

bool Branches::are_disjoint(const Json& a, const Json& b) {
  if (is_true_schema(a) && is_true_schema(b)) return false;
  if (a.is_object() && b.is_object() && (types_of(document_, a) & types_of(document_, b)) == 0) return true;
  if (disjoint_depth_ == kMaxDisjointDepth) return false;
  ++disjoint_depth_;
  fuel_.spend(20);
  const std::vector<Branch> both = of({{&a}, {&b}});
  const bool result = std::all_of(both.begin(), both.end(), [&](const Branch& branch) {
    return is_impossible(branch, kMaxDisjointDepth - disjoint_depth_);
  });
  --disjoint_depth_;
  return result;
}

// A format that nobody knows asserts nothing.
bool Branches::is_ignored(const Json& schema, std::string_view keyword) const {
  return keyword == "format" && !format_regex(document_.text(schema, keyword)->get_ref<const std::string&>());
}

// The ways in which a schema can fail: one of its keywords does.
Branches::Alternatives Branches::failures(const Json& schema) {
  using Sense = Term::Sense;
  constexpr std::string_view kSingle[]{
      "type",         "enum",      "const",     "minimum", "maximum",  "exclusiveMinimum", "exclusiveMaximum",
      "multipleOf",   "minLength", "maxLength", "pattern", "minItems", "maxItems",         "minProperties",
      "maxProperties"};
  constexpr std::string_view kNotNegated[]{"format",
                                           "items",
                                           "prefixItems",
                                           "additionalItems",
                                           "uniqueItems",
                                           "patternProperties",
                                           "additionalProperties",
                                           "propertyNames"};
  Alternatives ways;
  check_keywords(schema);
  for (const std::string_view keyword : kSingle)
    if (SchemaDocument::find(schema, keyword)) ways.push_back({{&schema, Sense::kKeywordFails, keyword, 0}});
  for (const std::string_view keyword : kNotNegated) {
    const Json* value = SchemaDocument::find(schema, keyword);
    if (value == nullptr || is_true_schema(*value) || is_ignored(schema, keyword) ||
        (keyword == "uniqueItems" && !document_.flag(schema, keyword)))
      continue;
    document_.refuse(schema, keyword,
                     "it stands where it must not hold (under 'not', 'if' or 'oneOf'), which is not "
                     "supported for this keyword");
  }
  if (const Json* names = document_.list(schema, "required"))
    for (uint32_t i = 0; i < names->size(); ++i)
      ways.push_back({{&schema, Sense::kKeywordFails, "required", i}});
  if (const Json* properties = document_.object(schema, "properties")) {
    uint32_t i = 0;
    for (const Json& property : *properties) {
      if (!is_true_schema(property)) ways.push_back({{&schema, Sense::kKeywordFails, "properties", i}});
      ++i;
    }
  }
  if (document_.text(schema, "$ref")) ways.push_back({{&document_.target(schema), Sense::kFails}});
  if (const Json* all = document_.list(schema, "allOf"))
    for (const Json& member : *all) ways.push_back({{&member, Sense::kFails}});
  if (const Json* any = document_.list(schema, "anyOf")) {
    Terms none;
    for (const Json& member : *any) none.push_back({&member, Sense::kFails});
    ways.push_back(std::move(none));
  }
  if (const Json* one = document_.list(schema, "oneOf")) {
    Terms none;
    for (const Terms& terms : exclusive(schema))
      if (terms.size() > 1)
        document_.refuse(schema, "oneOf",
                         "it must not hold (under 'not', 'if' or 'oneOf'), and its members overlap, which is "
                         "not supported");
    for (const Json& member : *one) none.push_back({&member, Sense::kFails});
    ways.push_back(std::move(none));
  }
  if (SchemaDocument::find(schema, "not")) ways.push_back({{&schema_at(schema, "not")}});
  const bool has_then = SchemaDocument::find(schema, "then"), has_else = SchemaDocument::find(schema, "else");
  if (SchemaDocument::find(schema, "if") && (has_then || has_else)) {
    const Json& condition = schema_at(schema, "if");
    if (has_then) ways.push_back({{&condition}, {&schema_at(schema, "then"), Sense::kFails}});
    if (has_else) ways.push_back({{&condition, Sense::kFails}, {&schema_at(schema, "else"), Sense::kFails}});
  }
  return ways;
}

void Branches::add_failing(Open& open, const Json& schema, uint32_t depth) {
  if (schema.is_boolean()) {
    open.is_dead |= schema.get<bool>();
    return;
  }
  if (!schema.is_object()) document_.refuse(schema, "schema", "it must be an object or a boolean");
  choose(open, failures(schema), depth);
}

}  // namespace nibble::grammar
