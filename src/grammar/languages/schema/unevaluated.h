// unevaluatedItems and unevaluatedProperties apply to what no other keyword mentions. They are supported if
// that is fixed, as with $ref and allOf, and refused next to keywords such as anyOf, where values decide.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/languages/schema/document.h"

namespace nibble::grammar {

// The schema `value` applies to every item or member that no schema of `scope` mentions.
struct Unevaluated {
  const Json* value;
  // The schema with the keyword, then those that it includes by $ref or allOf.
  std::vector<const Json*> scope;

  // Whether a schema of the scope mentions a member. `is_named`: whether it does so by name or pattern.
  bool mentions_member(const std::function<bool(const Json& schema)>& is_named) const;
};

// Returns nullopt if the keyword is absent or has no effect. Throws InputError if that depends on the value.
std::optional<Unevaluated> unevaluated_of(const SchemaDocument& document, const Json& schema,
                                          std::string_view keyword);

}  // namespace nibble::grammar
