#include "grammar/languages/schema/branches.h"

#include <algorithm>
#include <cmath>

namespace nibble::grammar {
namespace {

constexpr size_t kMaxBranches{2'000};  // of one place in the schema
constexpr uint32_t kMaxDisjointDepth{4};

// Keywords that change what is valid and are not enforced.
constexpr std::string_view kRefused[]{"contains", "$dynamicRef", "$recursiveRef"};
// Draft 2019 divided the third into the others.
constexpr std::string_view kDependencies[]{"dependentRequired", "dependentSchemas", "dependencies"};

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
  if (type == nullptr || document.is_reference_alone(schema)) return kAllTypes;
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
        document_.refuse(*terms.front().schema, "schema",
                         "its anyOf, oneOf, if, not and dependencies, with those beside it, have too many "
                         "combinations; use fewer of them");
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
    case Term::Sense::kHasMember:
      open.branch.types &= kObjectType;
      open.branch.terms.push_back(term);
      return;
    case Term::Sense::kLacksMember:
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
  for (const std::string_view keyword : kRefused)
    if (SchemaDocument::find(schema, keyword))
      document_.refuse(schema, keyword, "this keyword is not supported; say it with others, or leave it out");
}

// Each entry: the member is not there, or it is, and more must hold.
void Branches::add_dependencies(Open& open, const Json& schema, std::string_view keyword, uint32_t depth) {
  const Json* entries = document_.object(schema, keyword);
  uint32_t index = 0;
  for (auto entry = entries->begin(); entry != entries->end(); ++entry, ++index) {
    const bool has_names = entry->is_array();
    if (keyword != "dependencies" && has_names != (keyword == "dependentRequired"))
      document_.refuse(schema, keyword,
                       has_names ? "each entry must be a schema" : "each entry must be an array of strings");
    Alternatives alternatives{{{&schema, Term::Sense::kLacksMember, keyword, index}},
                              {{&schema, Term::Sense::kHasMember, keyword, index}}};
    if (!has_names) alternatives[1].push_back({&*entry});
    choose(open, std::move(alternatives), depth);
  }
}

void Branches::add_holding(Open& open, const Json& schema, uint32_t depth) {
  if (schema.is_boolean()) {
    open.is_dead |= !schema.get<bool>();
    return;
  }
  if (!schema.is_object()) document_.refuse(schema, "schema", "it must be an object or a boolean");
  if (document_.is_reference_alone(schema)) return add(open, {&document_.target(schema)}, depth + 1);
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
  for (const std::string_view keyword : kDependencies)
    if (SchemaDocument::find(schema, keyword)) add_dependencies(open, schema, keyword, depth);
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
  if (SchemaDocument::is_true(a) && SchemaDocument::is_true(b)) return false;
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

void Branches::add_failing(Open& open, const Json& schema, uint32_t depth) {
  if (schema.is_boolean()) {
    open.is_dead |= schema.get<bool>();
    return;
  }
  if (!schema.is_object()) document_.refuse(schema, "schema", "it must be an object or a boolean");
  choose(open, failures(schema), depth);
}

}  // namespace nibble::grammar
