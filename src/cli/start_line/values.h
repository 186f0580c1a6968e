// Values of other engines' flags: patterns, numbers such as 32k, lists, and members of a JSON object.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"

namespace nibble::cli {

std::vector<std::string> split(std::string_view text, char separator);  // without empty parts

// Whether one of the patterns, which | separates, matches all of `value`; letters match in either case.
bool matches_one(std::string_view patterns, const std::string& value);

// vLLM's form of a number: "32k" is 32000, "32K" 32768, "1.5k" 1500. Any other text is returned unchanged.
std::string plain_count(const std::string& text);

// The texts of a JSON list, or the parts of "a,b".
std::vector<std::string> list_of(const std::string& text);

// A JSON object without spaces and with sorted members, so that patterns can match it. Any other text is
// returned unchanged.
std::string compact_json(const std::string& text);

// {"a": {"b": value}} for the path "a.b". A value that is not JSON is a text.
nlohmann::json json_at(std::string_view path, const std::string& value);

std::string to_line(const nlohmann::json& value);

}  // namespace nibble::cli
