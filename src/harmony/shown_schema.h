// Rewrites the JSON schema of a tool's parameters with the keywords that harmony's TypeScript can show
// (typescript.h), so that the prompt states every requirement on the arguments. The official renderer shows
// `any` for other keywords.
#pragma once

#include <optional>

#include "harmony/json_text.h"

namespace nibble::harmony {

// $ref is replaced by its target, allOf is merged, anyOf becomes oneOf or a list of types, const becomes an
// enum, and the members of maps (additionalProperties, patternProperties) become properties named "[key:
// string]". A type that contains itself is written out once, with its name as a comment, and referred to by
// name inside. Schemas without these keywords do not change. No schema is refused: parts that can't be
// rewritten are left out.
//
// Returns nullopt if there is nothing to show: the tool takes no arguments, or any arguments.
std::optional<Json> shown_schema(const Json& schema);

}  // namespace nibble::harmony
