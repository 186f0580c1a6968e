// Rewrites the JSON schema of a tool's parameters with the keywords that harmony's TypeScript can show
// (typescript.h), so that the prompt states every requirement. The official renderer shows `any` for others.
#pragma once

#include <optional>

#include "harmony/json_text.h"

namespace nibble::harmony {

// $ref is replaced by its target, allOf is merged, anyOf becomes oneOf or a list of types, const an enum, and
// the members of maps (additionalProperties, patternProperties) become properties named "[key: string]". A
// type that contains itself is written once, with its name as a comment, and referred to by name inside. What
// can't be rewritten is left out. Returns nullopt if the tool takes no or any arguments.
std::optional<Json> shown_schema(const Json& schema);

}  // namespace nibble::harmony
