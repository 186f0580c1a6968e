// Parses and writes JSON text. Input is untrusted: its depth and size are bounded, and every fault is a message of one line.
// Output is one line, with numbers as the official renderer writes them, because a schema's defaults become part of a prompt.
#pragma once

#include <string>
#include <string_view>

#include "core/json_fwd.h"

namespace nibble::harmony {

using Json = nlohmann::ordered_json;  // keeps the order of members, which is visible in a rendered schema

// Throws InputError: "WHAT is no JSON: ...", and for an object that has a key twice: readers disagree about which of the values counts.
Json parse_json(std::string_view text, std::string_view what);

enum class JsonSpacing {
  kNone,         // {"a":1,"b":2}
  kAfterCommas,  // {"a": 1, "b": 2}, as Python and chat templates print it
};
std::string json_line(const Json& value, JsonSpacing spacing);

}  // namespace nibble::harmony
