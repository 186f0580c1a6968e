// Rewrites the JSON schema of a tool's parameters with keywords that harmony's TypeScript can show
// (typescript.h), so that the prompt states every requirement. The official renderer ignores all other
// keywords, so it shows a schema without a type or oneOf as `any`.
#pragma once

#include <optional>

#include "harmony/json_text.h"

namespace nibble::harmony {

// $ref is replaced by its target, allOf is merged, anyOf becomes oneOf or a list of types, const an enum, and
// the members of maps (additionalProperties, patternProperties) become properties named "[key: string]". A
// type that contains itself is written once, with its name as a comment, and referred to by name inside
// itself. Other keywords are left out. Returns nullopt if the tool takes no arguments, or accepts any.
std::optional<Json> shown_schema(const Json& schema);

}  // namespace nibble::harmony
