// The JSON schema of a tool's parameters as the TypeScript type that a harmony prompt shows.
#pragma once

#include <string>

#include "harmony/json_text.h"

namespace nibble::harmony {

// Keywords that harmony does not know (anyOf, allOf, $ref, const, ...) become `any`; nothing is refused. `schema` must
// be of bounded depth (parse_json sees to it).
std::string typescript_type(const Json& schema);

}  // namespace nibble::harmony
