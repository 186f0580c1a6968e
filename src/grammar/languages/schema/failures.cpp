// Lists the ways in which a schema can fail, for "not", "if" and "oneOf".
#include "core/text/take_until.h"
#include "grammar/languages/schema/branches.h"
#include "grammar/languages/schema/facts.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {

// Whether the keyword is a "format" with an unknown name, which asserts nothing.
bool Branches::is_ignored(const Json& schema, std::string_view keyword) const {
  return keyword == "format" && !find_format(document_.text(schema, keyword)->get_ref<const std::string&>());
}

// Adds the failures of keywords that do not concern items, members, or other schemas.
void Branches::keywords_fail(const Json& schema, Alternatives& ways) {
  constexpr std::string_view kSingle{
      "type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength "
      "pattern format minItems maxItems minProperties maxProperties"};
  constexpr std::string_view kUnknown[]{"uniqueItems", "unevaluatedItems", "unevaluatedProperties",
                                        "$dynamicRef", "$recursiveRef"};
  for (std::string_view rest = kSingle; !rest.empty();) {
    const std::string_view keyword = take_until(rest, ' ');
    if (SchemaDocument::find(schema, keyword) && !is_ignored(schema, keyword))
      ways.push_back({{&schema, Term::Sense::kKeywordFails, keyword}});
  }
  for (const std::string_view keyword : kUnknown) {
    const Json* value = SchemaDocument::find(schema, keyword);
    if (value == nullptr) continue;
    if (keyword == "uniqueItems" ? document_.flag(schema, keyword) : !SchemaDocument::is_true(*value))
      ways.push_back({{&schema, Term::Sense::kUnknown, keyword}});
  }
}

// Adds the failures of $ref, allOf and anyOf.
void Branches::combinations_fail(const Json& schema, Alternatives& ways) {
  using Sense = Term::Sense;
  if (document_.text(schema, "$ref")) ways.push_back({{&document_.target(schema), Sense::kFails}});
  if (const Json* all = document_.list(schema, "allOf"))
    for (const Json& member : *all) ways.push_back({{&member, Sense::kFails}});
  if (const Json* any = document_.list(schema, "anyOf")) {
    Terms none;
    for (const Json& member : *any) none.push_back({&member, Sense::kFails});
    ways.push_back(std::move(none));
  }
}

// Adds the failures of oneOf: no member holds, or two do.
void Branches::exclusions_fail(const Json& schema, Alternatives& ways) {
  const Json* one = document_.list(schema, "oneOf");
  if (one == nullptr) return;
  Terms none;
  for (const Json& member : *one) none.push_back({&member, Term::Sense::kFails});
  ways.push_back(std::move(none));
  constexpr size_t kMaxPairs{16};
  size_t num_pairs = 0;
  for (const Terms& alone : exclusive(schema))  // a member holds, and another that overlaps with it
    for (size_t i = 1; i < alone.size(); ++i)
      if (alone[i].schema > alone[0].schema && ++num_pairs <= kMaxPairs)
        ways.push_back({{alone[0].schema}, {alone[i].schema}});
  if (num_pairs > kMaxPairs) ways.push_back({{&schema, Term::Sense::kUnknown, "oneOf"}});
}

// Adds the failures of "not", and of "if" with "then" and "else".
void Branches::conditions_fail(const Json& schema, Alternatives& ways) {
  using Sense = Term::Sense;
  if (SchemaDocument::find(schema, "not")) ways.push_back({{&schema_at(schema, "not")}});
  const bool has_then = SchemaDocument::find(schema, "then"), has_else = SchemaDocument::find(schema, "else");
  if (!SchemaDocument::find(schema, "if") || !(has_then || has_else)) return;
  const Json& condition = schema_at(schema, "if");
  if (has_then) ways.push_back({{&condition}, {&schema_at(schema, "then"), Sense::kFails}});
  if (has_else) ways.push_back({{&condition, Sense::kFails}, {&schema_at(schema, "else"), Sense::kFails}});
}

// Returns the ways in which a schema can fail, one keyword each. A widened schema may also fail by a keyword
// that it lost, so any value may fail it.
Branches::Alternatives Branches::failures(const Json& schema) {
  if (document_.is_widened(schema)) return {{}};
  if (document_.is_reference_alone(schema)) return {{{&document_.target(schema), Term::Sense::kFails}}};
  Alternatives ways;
  keywords_fail(schema, ways);
  items_fail(schema, ways);
  members_fail(schema, ways);
  combinations_fail(schema, ways);
  exclusions_fail(schema, ways);
  conditions_fail(schema, ways);
  return ways;
}

void Branches::items_fail(const Json& schema, Alternatives& ways) {
  const auto fails = [&](std::string_view keyword, size_t index = 0) {
    ways.push_back({{&schema, Term::Sense::kKeywordFails, keyword, to_index(index)}});
  };
  const Json *first = first_items(schema), *rest = further_items(schema);
  const bool is_list = first != nullptr && first == SchemaDocument::find(schema, "items");
  if (first != nullptr && !first->is_array()) document_.refuse(schema, "prefixItems", "it must be an array");
  for (size_t i = 0; first != nullptr && i < first->size(); ++i)
    if (!SchemaDocument::is_true((*first)[i])) fails(is_list ? "items" : "prefixItems", i);
  if (rest != nullptr && !SchemaDocument::is_true(*rest)) fails(is_list ? "additionalItems" : "items");
  if (!SchemaDocument::find(schema, "contains")) return;
  const uint32_t min = document_.count(schema, "minContains").value_or(1);
  const bool has_max = SchemaDocument::find(schema, "maxContains");
  if (min > 0) fails("contains");
  if (min > 1 || has_max) ways.push_back({{&schema, Term::Sense::kUnknown, "contains"}});
}

void Branches::members_fail(const Json& schema, Alternatives& ways) {
  using Sense = Term::Sense;
  if (const Json* names = document_.list(schema, "required"))
    for (uint32_t i = 0; i < names->size(); ++i)
      ways.push_back({{&schema, Sense::kKeywordFails, "required", i}});
  if (const Json* properties = document_.object(schema, "properties")) {
    uint32_t i = 0;
    for (const Json& property : *properties) {
      if (!SchemaDocument::is_true(property))
        ways.push_back({{&schema, Sense::kKeywordFails, "properties", i}});
      ++i;
    }
  }
  for (const std::string_view keyword : {"patternProperties", "additionalProperties", "propertyNames"}) {
    const Json* value = SchemaDocument::find(schema, keyword);
    if (value == nullptr) continue;
    const bool has_patterns = keyword == "patternProperties";
    const size_t num = has_patterns ? document_.object(schema, keyword)->size() : 1;
    for (uint32_t i = 0; i < num; ++i)
      if (!SchemaDocument::is_true(has_patterns ? *std::next(value->begin(), i) : *value))
        ways.push_back({{&schema, Sense::kKeywordFails, keyword, i}});
  }
  for (const std::string_view keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* entries = document_.object(schema, keyword);
    if (entries == nullptr) continue;
    for (const auto& [name, entry] : entries->items()) {
      check_dependency(schema, keyword, entry);
      const Term has{&schema, Sense::kHasMember, keyword, 0, name};
      if (!entry.is_array())
        ways.push_back({has, {&entry, Sense::kFails}});
      else
        for (const Json& other : entry)
          ways.push_back(
              {has, {&schema, Sense::kLacksMember, keyword, 0, other.get_ref<const std::string&>()}});
    }
  }
}

}  // namespace nibble::grammar
