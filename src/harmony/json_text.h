// Parses and writes JSON text. Input is untrusted: its depth and the members per object are bounded, and
// errors are one line. Output is one line, with numbers as the official renderer writes them, because prompts
// contain schemas.
#pragma once

#include <string>
#include <string_view>

#include "core/text/json_fwd.h"

namespace nibble::harmony {

// Throws InputError: "`what` is not valid JSON: ...". A key that occurs twice in an object is an error too:
// JSON readers disagree about which value counts.
Json parse_json(std::string_view text, std::string_view what);

enum class JsonSpacing {
  kNone,         // {"a":1,"b":2}
  kAfterCommas,  // {"a": 1, "b": 2}, as in Python and chat templates
};
std::string json_line(const Json& value, JsonSpacing spacing = JsonSpacing::kNone);

}  // namespace nibble::harmony
