// unevaluatedItems and unevaluatedProperties, as far as the schema alone tells what they are about. What a schema's $ref and allOf mention
// is the same for every value, while what an anyOf mentions depends on which of its members hold: beside such the keyword is refused.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/languages/schema/document.h"

namespace nibble::grammar {

// Gives what the keyword asks of whatever no schema of its scope mentions.
struct Unevaluated {
  const Json* value;  // a schema
  // The one that has the keyword comes first. The others hold where it does, because it says so.
  std::vector<const Json*> scope;

  // Members of an object, by what stands in each schema of the scope under "properties" and "patternProperties": these say with
  // `is_named` if they mean the member.
  bool mentions_member(const std::function<bool(const Json& schema)>& is_named) const;
};

// Nothing if the schema does not have the keyword, or the keyword says nothing. Throws InputError if it depends on the value.
std::optional<Unevaluated> unevaluated_of(const SchemaDocument& document, const Json& schema,
                                          std::string_view keyword);

}  // namespace nibble::grammar
