// Rewrites the JSON schema of a tool's parameters in the words that harmony's TypeScript has (typescript.h), so that the prompt
// shows all that the arguments must be. The official renderer shows `any` for the others.
#pragma once

#include <optional>

#include "harmony/json_text.h"

namespace nibble::harmony {

// $ref is replaced by what it names, allOf is merged, anyOf becomes oneOf or a list of types, const becomes an enum, and the
// members of maps (additionalProperties, patternProperties) become properties named "[key: string]". A type that contains itself
// is written out once, with its name as a comment, and named inside. Schemas without these words stay as they are. Nothing is
// refused: what can't be rewritten is left out.
//
// Returns nothing if there is nothing to show: the tool takes no arguments, or any.
std::optional<Json> shown_schema(const Json& schema);

}  // namespace nibble::harmony
