// unevaluatedItems and unevaluatedProperties apply to items and members that no other keyword mentions. They
// are supported if these items and members follow from the schema alone (as with $ref and allOf). They are
// refused if the items and members depend on the value (as with anyOf).
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/languages/schema/document.h"

namespace nibble::grammar {

// Says that the schema `value` applies to every item or member that no schema of `scope` mentions.
struct Unevaluated {
  const Json* value;
  // The schema with the keyword, then the schemas that it includes by $ref or allOf.
  std::vector<const Json*> scope;

  // Whether a schema of the scope mentions a member. `is_named`: whether a schema's names or patterns match.
  bool mentions_member(const std::function<bool(const Json& schema)>& is_named) const;
};

// Returns nullopt if the keyword is absent or has no effect. Throws InputError if its effect depends on the
// value.
std::optional<Unevaluated> unevaluated_of(const SchemaDocument& document, const Json& schema,
                                          std::string_view keyword);

}  // namespace nibble::grammar
