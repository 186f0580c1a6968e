// Parses and writes JSON text. Input is untrusted: its depth and the number of members per object are
// bounded, and every error message is one line. Output is one line, with numbers as the official renderer
// writes them, because a schema's default values become part of a prompt.
#pragma once

#include <string>
#include <string_view>

#include "core/json_fwd.h"

namespace nibble::harmony {

using Json = nlohmann::ordered_json;  // keeps the order of members, which is visible in a rendered schema

// Throws InputError: "`what` is not valid JSON: ...". Also throws for an object that has a key twice,
// because JSON readers disagree about which value counts.
Json parse_json(std::string_view text, std::string_view what);

enum class JsonSpacing {
  kNone,         // {"a":1,"b":2}
  kAfterCommas,  // {"a": 1, "b": 2}, as Python and chat templates print it
};
std::string json_line(const Json& value, JsonSpacing spacing);

}  // namespace nibble::harmony
