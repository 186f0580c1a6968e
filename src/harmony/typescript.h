// Converts the JSON schema of a tool's parameters to the TypeScript type that a harmony prompt shows.
#pragma once

#include <string>

#include "harmony/json_text.h"

namespace nibble::harmony {

// Ignores keywords that harmony does not support (anyOf, allOf, $ref, const, ...). A schema without a known
// type and without oneOf becomes `any`; no schema is refused. Recurses, so the depth of `schema` must be
// bounded; parse_json() bounds it.
std::string typescript_type(const Json& schema);

}  // namespace nibble::harmony
