#include "grammar/languages/schema/unevaluated.h"

#include <algorithm>
#include <set>

namespace nibble::grammar {

bool Unevaluated::mentions_member(const std::function<bool(const Json& schema)>& is_named) const {
  return std::ranges::any_of(scope, [&](const Json* schema) {
    // Each of these two keywords covers all members that no other keyword names.
    const bool has_rest = SchemaDocument::find(*schema, "additionalProperties") ||
                          (schema != scope[0] && SchemaDocument::find(*schema, "unevaluatedProperties"));
    return has_rest || is_named(*schema);
  });
}

std::optional<Unevaluated> unevaluated_of(const SchemaDocument& document, const Json& schema,
                                          std::string_view keyword) {
  const Json* value = SchemaDocument::find(schema, keyword);
  if (value == nullptr || SchemaDocument::is_true(*value)) return std::nullopt;
  Unevaluated found{value, {}};
  std::set<const Json*> seen;
  const auto add = [&](const Json& more) {
    if (seen.insert(&more).second) found.scope.push_back(&more);
  };
  add(schema);
  for (size_t at = 0; at < found.scope.size(); ++at) {
    const Json& inner = *found.scope[at];
    if (document.is_widened(inner))
      document.refuse(schema, keyword, "what another schema evaluates is unknown");
    for (const std::string_view by_value :
         {"anyOf", "oneOf", "if", "contains", "dependentSchemas", "dependencies"})
      if (SchemaDocument::find(inner, by_value))
        document.refuse(schema, keyword, fmt::format("this keyword is not supported next to '{}'", by_value));
    if (SchemaDocument::find(inner, "$ref")) add(document.target(inner));
    if (const Json* all = document.list(inner, "allOf"))
      for (const Json& member : *all) add(member);
  }
  return found;
}

}  // namespace nibble::grammar
