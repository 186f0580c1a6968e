// unevaluatedItems and unevaluatedProperties, as far as the schema alone determines which items or members
// they apply to. What a schema's $ref and allOf mention is the same for every value. What an anyOf mentions
// depends on which of its members hold, so unevaluated keywords next to such keywords are refused.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/languages/schema/document.h"

namespace nibble::grammar {

// The schema `value` applies to every item or member that no schema of `scope` mentions.
struct Unevaluated {
  const Json* value;  // a schema
  // The schema with the keyword comes first. The others hold whenever it holds, because it refers to them.
  std::vector<const Json*> scope;

  // Returns whether a schema of the scope mentions a member of an object. `is_named` decides it by
  // "properties" and "patternProperties" of one schema.
  bool mentions_member(const std::function<bool(const Json& schema)>& is_named) const;
};

// Returns nullopt if the schema does not have the keyword, or if it has no effect. Throws InputError if its
// effect depends on the value.
std::optional<Unevaluated> unevaluated_of(const SchemaDocument& document, const Json& schema,
                                          std::string_view keyword);

}  // namespace nibble::grammar
