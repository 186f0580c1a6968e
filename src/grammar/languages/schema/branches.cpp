#include "grammar/languages/schema/branches.h"

#include <algorithm>
#include <cmath>

#include "grammar/languages/one_line.h"

namespace nibble::grammar {
namespace {

constexpr size_t kMaxBranches{2'000};  // limit on branches made for one list of terms
constexpr uint32_t kMaxDisjointDepth{4};

// Keywords that are refused because they restrict values and can't be enforced.
constexpr std::string_view kRefused[]{"$dynamicRef", "$recursiveRef"};
// Draft 2019-09 split "dependencies" into dependentRequired and dependentSchemas.
constexpr std::string_view kDependencies[]{"dependentRequired", "dependentSchemas", "dependencies"};

bool is_about_names(const Term& term) {
  return term.sense == Term::Sense::kKeywordFails &&
         (term.keyword == "additionalProperties" || term.keyword == "patternProperties" ||
          term.keyword == "propertyNames");
}

// Whether the term must be replaced after all others of its branch, because it depends on them.
bool depends_on_others(const Term& term) {
  return term.sense == Term::Sense::kUnknown || is_about_names(term);
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
  if (type == nullptr || document.is_reference_alone(schema)) return kAllTypes;
  static const std::map<std::string, Types> kTypes{
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberTypes},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  Types types = 0;
  const auto add = [&](const Json& name) {
    const auto known = name.is_string() ? kTypes.find(name.get_ref<const std::string&>()) : kTypes.end();
    if (known == kTypes.end())
      document.refuse(schema, "type",
                      "it must be one or more of null, boolean, integer, number, string, array, object");
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
  std::optional<Term> left_out;
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
    name_members(branch.branch, alternatives);
    if (std::optional<Term> unknown = drop_unknown(alternatives); unknown && !left_out) left_out = unknown;
    if (alternatives.size() == 1) {
      for (const Term& term : alternatives[0]) add(branch, term, 0);
      open.push_back(std::move(branch));
      continue;
    }
    for (size_t i = alternatives.size(); i-- > 0;) {
      if (++num_made > kMaxBranches)
        document_.refuse(*terms.front().schema, "schema",
                         "its anyOf, oneOf, if, not and dependencies, together with those that apply at the "
                         "same place, have too many combinations; use fewer of them");
      fuel_.spend(10 + branch.seen.size());
      Open next = branch;
      for (const Term& term : alternatives[i]) add(next, term, 0);
      open.push_back(std::move(next));
    }
  }
  if (found.empty() && left_out) refuse(*left_out);
  return found;
}

void Branches::refuse(const Term& left_out) const {
  document_.refuse_failure(*left_out.schema, left_out.keyword,
                           "negating this keyword (under 'not', 'if' or 'oneOf') is not supported");
}

void Branches::check_complete() const {
  if (left_out_) refuse(*left_out_);
}

// Replaces failures of keywords about all member names (additionalProperties, ...) by a failure for each name
// in the branch. Adds a kUnknown alternative, unless the names in the branch are all that are possible.
void Branches::name_members(const Branch& branch, Alternatives& alternatives) {
  constexpr size_t kMaxNames{16};
  if (std::ranges::none_of(alternatives,
                           [](const Terms& terms) { return std::ranges::any_of(terms, is_about_names); }))
    return;
  std::vector<std::string_view> names;
  bool has_all = false;
  const auto add_names = [&](const Json* object) {
    if (object != nullptr && object->is_object())
      for (const auto& member : object->items())
        if (std::ranges::find(names, member.key()) == names.end()) names.push_back(member.key());
  };
  for (const Term& term : branch.terms) {
    if (term.sense != Term::Sense::kHolds) continue;
    add_names(SchemaDocument::find(*term.schema, "properties"));
    if (const Json* required = SchemaDocument::find(*term.schema, "required");
        required && required->is_array())
      for (const Json& name : *required)
        if (name.is_string() && std::ranges::find(names, name.get_ref<const std::string&>()) == names.end())
          names.push_back(name.get_ref<const std::string&>());
    add_names(SchemaDocument::find(*term.schema, "const"));
    const Json* values = SchemaDocument::find(*term.schema, "enum");
    if (values != nullptr && values->is_array())
      for (const Json& value : *values) add_names(&value);
    const Json* others = SchemaDocument::find(*term.schema, "additionalProperties");
    has_all |=
        values != nullptr || SchemaDocument::find(*term.schema, "const") ||
        (others != nullptr && *others == false && !SchemaDocument::find(*term.schema, "patternProperties"));
  }
  fuel_.spend(names.size());
  has_all &= names.size() <= kMaxNames;
  names.resize(std::min(names.size(), kMaxNames));
  Alternatives named;
  for (Terms& terms : alternatives) {
    if (terms.empty() || !is_about_names(terms.front())) {
      named.push_back(std::move(terms));
      continue;
    }
    const Term& failing = terms.front();
    const Json& value = *SchemaDocument::find(*failing.schema, failing.keyword);
    for (const std::string_view name : names) {
      if (!may_name(failing, name)) continue;
      using Sense = Term::Sense;
      if (failing.keyword == "propertyNames") {
        named.push_back({{failing.schema, Sense::kHasMember, failing.keyword, 0, name}});
      } else {
        const Json& schema = failing.keyword == "patternProperties"
                                 ? *std::next(value.begin(), static_cast<ptrdiff_t>(failing.index))
                                 : value;
        named.push_back({{&schema, Sense::kMemberFails, failing.keyword, 0, name}});
      }
    }
    if (!has_all) named.push_back({{failing.schema, Term::Sense::kUnknown, failing.keyword}});
  }
  alternatives = std::move(named);
}

// Whether the failing keyword certainly applies to a member of this name, and the member can violate it.
bool Branches::may_name(const Term& failing, std::string_view name) {
  const Json& schema = *failing.schema;
  fuel_.spend(5);
  const Json* patterns = SchemaDocument::find(schema, "patternProperties");
  if (failing.keyword == "patternProperties")
    return is_found(name, schema, std::next(patterns->begin(), static_cast<ptrdiff_t>(failing.index)).key(),
                    false);
  if (failing.keyword == "propertyNames")
    return !is_name(name, *SchemaDocument::find(schema, failing.keyword));
  if (document_.property(schema, std::string(name)) != nullptr) return false;
  if (patterns != nullptr)
    for (const auto& pattern : patterns->items())
      if (!is_found(name, schema, pattern.key(), true)) return false;
  return true;
}

// Removes alternatives that can't be expressed (kUnknown). Returns the first of their terms, if any. During a
// search for overlaps (disjoint_depth_), instead replaces all alternatives by one that every value satisfies.
std::optional<Term> Branches::drop_unknown(Alternatives& alternatives) {
  const auto is_unknown = [](const Terms& terms) { return terms.front().sense == Term::Sense::kUnknown; };
  const auto unknown = std::ranges::find_if(
      alternatives, [&](const Terms& terms) { return !terms.empty() && is_unknown(terms); });
  if (unknown == alternatives.end()) return std::nullopt;
  if (disjoint_depth_ > 0) {
    alternatives = {{}};
    return std::nullopt;
  }
  const Term first = unknown->front();
  std::erase_if(alternatives, [&](const Terms& terms) {
    if (terms.empty() || !is_unknown(terms)) return false;
    const std::string warning =
        fmt::format("'{}' at #{}: where it is negated, some valid values are excluded", terms.front().keyword,
                    one_line(document_.path_of(*terms.front().schema)));
    if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
    return true;
  });
  if (!left_out_) left_out_ = first;
  return first;
}

// Returns the types of values for which the keyword can fail.
Types Branches::types_of_failure(const Term& term) const {
  const std::string_view keyword = term.keyword;
  if (keyword == "type") return static_cast<Types>(kAllTypes & ~types_of(document_, *term.schema));
  if (keyword == "enum" || keyword == "const") return kAllTypes;
  if (keyword.ends_with("imum") || keyword == "multipleOf") return kNumberTypes;
  if (keyword.ends_with("Length") || keyword == "pattern" || keyword == "format") return kStringType;
  if (keyword.starts_with('$') || keyword == "oneOf") return kAllTypes;
  return keyword.ends_with("tems") || keyword == "contains" ? kArrayType : kObjectType;
}

// Removes alternatives that no value of the given types can satisfy.
void Branches::drop_impossible(Alternatives& alternatives, Types types) const {
  std::erase_if(alternatives, [&](const Terms& terms) {
    return std::ranges::any_of(terms, [&](const Term& term) {
      const bool fails = term.sense == Term::Sense::kKeywordFails || term.sense == Term::Sense::kUnknown;
      const bool has = term.sense == Term::Sense::kHasMember || term.sense == Term::Sense::kMemberFails;
      return (fails && (types_of_failure(term) & types) == 0) || (has && (types & kObjectType) == 0);
    });
  });
}

void Branches::choose(Open& open, Alternatives alternatives, uint32_t depth) {
  drop_impossible(alternatives, open.branch.types);
  if (std::ranges::any_of(alternatives, [](const Terms& terms) {
        return std::ranges::any_of(terms, depends_on_others);
      })) {  // choices are processed last to first: handle these at the end
    open.choices.insert(open.choices.begin(), std::move(alternatives));
    return;
  }
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
  if (depth > kMaxDepth) document_.refuse(*term.schema, "$ref", "references form an endless chain");
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
    case Term::Sense::kMemberFails:
      open.branch.types &= kObjectType;
      open.branch.terms.push_back(term);
      return;
    case Term::Sense::kLacksMember:
      open.branch.terms.push_back(term);
      return;
    case Term::Sense::kUnknown:
      break;
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
      document_.refuse(schema, keyword,
                       "this keyword is not supported; express it with others, or leave it out");
  if (SchemaDocument::find(schema, "contains") && (SchemaDocument::find(schema, "maxContains") ||
                                                   document_.count(schema, "minContains").value_or(1) != 1))
    document_.refuse(schema, "contains",
                     "this keyword is not supported together with minContains or maxContains");
}

// Adds two alternatives per entry of a dependency: the member is absent, or it is present and the entry
// holds.
void Branches::add_dependencies(Open& open, const Json& schema, std::string_view keyword, uint32_t depth) {
  using Sense = Term::Sense;
  for (const auto& [name, entry] : document_.object(schema, keyword)->items()) {
    check_dependency(schema, keyword, entry);
    Alternatives alternatives{{{&schema, Sense::kLacksMember, keyword, 0, name}},
                              {{&schema, Sense::kHasMember, keyword, 0, name}}};
    if (entry.is_array()) {
      for (const Json& other : entry)
        alternatives[1].push_back(
            {&schema, Sense::kHasMember, keyword, 0, other.get_ref<const std::string&>()});
    } else {
      alternatives[1].push_back({&entry});
    }
    choose(open, std::move(alternatives), depth);
  }
}

void Branches::check_dependency(const Json& schema, std::string_view keyword, const Json& entry) const {
  const bool has_names = entry.is_array();
  if (keyword != "dependencies" && has_names != (keyword == "dependentRequired"))
    document_.refuse(schema, keyword,
                     has_names ? "each entry must be a schema" : "each entry must be an array of strings");
  if (has_names && !std::ranges::all_of(entry, [](const Json& name) { return name.is_string(); }))
    document_.refuse(schema, keyword, "names must be strings");
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

// Returns an alternative per member of oneOf: this member holds, and all members that overlap with it fail.
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
  const bool result = std::ranges::all_of(
      both, [&](const Branch& branch) { return is_impossible(branch, kMaxDisjointDepth - disjoint_depth_); });
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
