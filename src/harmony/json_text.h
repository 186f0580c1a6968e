// JSON text in and out. In: from outside, so its depth and size are bounded and every fault is one line. Out: on one
// line, with numbers written as the official renderer writes them (a schema's defaults become part of a prompt).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace nibble::harmony {

using Json = nlohmann::ordered_json;  // keeps the order of the members, which the rendering of a schema shows

// Throws InputError: "`what` is no JSON: ...".
Json parse_json(std::string_view text, std::string_view what);

enum class JsonSpacing {
  kNone,         // {"a":1,"b":2}
  kAfterCommas,  // {"a": 1, "b": 2}: as Python and the chat templates print
};
std::string json_line(const Json& value, JsonSpacing spacing);

}  // namespace nibble::harmony
