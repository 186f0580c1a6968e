#include "grammar/languages/schema/widening.h"

#include <algorithm>

#include "core/text/word_list.h"
#include "grammar/languages/one_line.h"

namespace nibble::grammar {
namespace {

// Keywords that are never dropped: "type" costs nothing, and references may need the others.
constexpr std::string_view kKept{"type $defs definitions $schema $id id $anchor"};
// Keywords that are expensive, or that multiply the cost of keywords next to them.
constexpr std::string_view kDear{
    "oneOf anyOf allOf not if dependentRequired dependencies uniqueItems dependentSchemas $ref pattern "
    "patternProperties contains multipleOf propertyNames"};
// Keywords whose values are not schemas, but objects with schemas as members.
constexpr std::string_view kNamed{
    "properties patternProperties $defs definitions dependentSchemas dependencies"};
// Keywords that unevaluatedItems and unevaluatedProperties depend on.
constexpr std::string_view kMentions{
    "properties patternProperties additionalProperties items prefixItems additionalItems $ref allOf anyOf "
    "oneOf if then else not dependentSchemas contains dependencies"};

std::vector<std::string> names_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& member : object.items()) names.push_back(member.key());
  return names;
}

}  // namespace

Widening::Widening(const Json& schema) : schema_(schema) {
  const Json* type = SchemaDocument::find(schema_, "type");
  const auto is_object = [](const Json& name) { return name == "object"; };
  if (type != nullptr && !is_object(*type) && !(type->is_array() && std::ranges::any_of(*type, is_object)))
    drop_keyword(schema_, "", "type");
}

bool Widening::drop(const Refusal& refusal) {
  Json& schema = schema_.at(Json::json_pointer(refusal.place));
  if (refusal.is_failure && places_.insert(refusal.place).second) {
    warnings_.push_back(fmt::format("'{}' at #{}: its negation is not enforced", one_line(refusal.keyword),
                                    one_line(refusal.place)));
    return true;
  }
  if (!schema.is_object()) return open_schema(schema, refusal.place);
  if (!schema.contains(refusal.keyword)) return simplify(refusal.place);
  drop_keyword(schema, refusal.place, refusal.keyword);
  return true;
}

bool Widening::remove(Json& schema, const std::string& place, const std::string& keyword) {
  if (schema.erase(keyword) == 0) return false;
  warnings_.push_back(fmt::format("'{}' at #{}: not enforced", one_line(keyword), one_line(place)));
  return true;
}

// Removes `keyword`. Also removes keywords that apply to everything that `keyword` does not name (such as
// additionalProperties), because they would then apply to more.
void Widening::drop_keyword(Json& schema, const std::string& place, const std::string& keyword) {
  places_.insert(place);
  remove(schema, place, keyword);
  // The schema ignored the keywords next to its $ref. Without the $ref they would apply, so they are removed.
  if (keyword == "$ref" && SchemaDocument::hides_siblings(schema_))
    for (const std::string& name : names_of(schema))
      if (name == "type" || !has_word(kKept, name)) schema.erase(name);
  if (keyword == "properties" || keyword == "patternProperties")
    remove(schema, place, "additionalProperties");
  if (keyword == "prefixItems") remove(schema, place, "items");
  if (keyword == "prefixItems" || keyword == "items") remove(schema, place, "additionalItems");
  if (!has_word(kMentions, keyword)) return;
  remove(schema, place, "unevaluatedProperties");
  remove(schema, place, "unevaluatedItems");
}

bool Widening::simplify(std::string place) {
  for (;;) {
    if (simplify_schema(schema_.at(Json::json_pointer(place)), place)) return true;
    if (place.empty()) return false;
    place.erase(place.rfind('/'));
  }
}

// Replaces a schema by `true`. Used for schemas that are not objects, and so have no keywords to remove.
bool Widening::open_schema(Json& schema, const std::string& place) {
  if (SchemaDocument::is_true(schema)) return false;
  schema = true;
  places_.insert(place);
  warnings_.push_back(fmt::format("the schema at #{}: not enforced", one_line(place)));
  return true;
}

bool Widening::simplify_schema(Json& schema, const std::string& place) {
  const bool is_named = has_word(kNamed, place.substr(place.rfind('/') + 1));
  if (schema.is_array() || (schema.is_object() && is_named)) return false;
  if (!schema.is_object()) return open_schema(schema, place);
  const std::vector<std::string> names = names_of(schema);
  const auto is_dear = [](const std::string& name) { return has_word(kDear, name); };
  const auto is_kept = [](const std::string& name) { return has_word(kKept, name); };
  if (std::ranges::any_of(names, is_dear)) {
    for (const std::string& name : names)
      if (is_dear(name)) drop_keyword(schema, place, name);
    return true;
  }
  if (std::ranges::all_of(names, is_kept)) return false;
  for (const std::string& name : names)
    if (!is_kept(name)) schema.erase(name);
  places_.insert(place);
  warnings_.push_back(fmt::format("everything except the type at #{}: not enforced", one_line(place)));
  return true;
}

}  // namespace nibble::grammar
