// Values of other engines' flags: patterns, numbers such as 32k, lists, and members of a JSON object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/text/json_fwd.h"

namespace nibble::cli {

std::vector<std::string> split(std::string_view text, char separator);  // drops empty parts

// Returns whether one of the patterns, separated by |, matches all of `value`. Ignores case.
bool matches_one(std::string_view patterns, const std::string& value);

// Converts vLLM's short numbers: "32k" is 32000, "32K" 32768, "1.5k" 1500. Leaves other text unchanged.
std::string plain_count(const std::string& text);

// Returns the texts of a JSON list, or the parts of "a,b".
std::vector<std::string> list_of(const std::string& text);

// Returns a JSON object without spaces and with sorted members, to match patterns. Leaves other text
// unchanged.
std::string compact_json(const std::string& text);

// Returns {"a": {"b": value}} for the path "a.b". A value that is not JSON becomes a string.
nlohmann::json json_at(std::string_view path, const std::string& value);

}  // namespace nibble::cli
