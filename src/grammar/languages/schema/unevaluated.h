// unevaluatedItems and unevaluatedProperties, as far as the schema alone determines what they apply to. What
// $ref and allOf mention is the same for every value; what keywords such as anyOf mention is not, so
// unevaluated keywords next to those are refused.
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
  // The schema with the keyword, then those that hold whenever it holds, because it refers to them.
  std::vector<const Json*> scope;

  // Whether a schema of the scope mentions a member. `is_named`: by its properties or patternProperties.
  bool mentions_member(const std::function<bool(const Json& schema)>& is_named) const;
};

// Returns nullopt if the keyword is absent or has no effect. InputError if its effect depends on the value.
std::optional<Unevaluated> unevaluated_of(const SchemaDocument& document, const Json& schema,
                                          std::string_view keyword);

}  // namespace nibble::grammar
