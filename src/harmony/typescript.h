// Converts the JSON schema of a tool's parameters to the TypeScript type that a harmony prompt shows.
#pragma once

#include <string>

#include "harmony/json_text.h"

namespace nibble::harmony {

// Keywords that harmony does not support (anyOf, allOf, $ref, const, ...) become `any`; no schema is refused.
// The depth of `schema` must be bounded, as parse_json() does.
std::string typescript_type(const Json& schema);

}  // namespace nibble::harmony
