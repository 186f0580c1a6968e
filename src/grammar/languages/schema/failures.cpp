// The ways in which a schema can fail, for "not", "if" and "oneOf": schema/branches.h.
#include "grammar/languages/schema/branches.h"
#include "grammar/languages/schema/formats.h"

namespace nibble::grammar {

// A format that nobody knows asserts nothing.
bool Branches::is_ignored(const Json& schema, std::string_view keyword) const {
  return keyword == "format" && !find_format(document_.text(schema, keyword)->get_ref<const std::string&>());
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
                                           "propertyNames",
                                           "dependentRequired",
                                           "dependentSchemas",
                                           "dependencies",
                                           "unevaluatedItems",
                                           "unevaluatedProperties"};
  Alternatives ways;
  check_keywords(schema);
  for (const std::string_view keyword : kSingle)
    if (SchemaDocument::find(schema, keyword)) ways.push_back({{&schema, Sense::kKeywordFails, keyword, 0}});
  for (const std::string_view keyword : kNotNegated) {
    const Json* value = SchemaDocument::find(schema, keyword);
    if (value == nullptr || SchemaDocument::is_true(*value) || is_ignored(schema, keyword) ||
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
      if (!SchemaDocument::is_true(property))
        ways.push_back({{&schema, Sense::kKeywordFails, "properties", i}});
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

}  // namespace nibble::grammar
