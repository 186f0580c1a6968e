// Guesses which name a misspelt one means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

// Returns the one of `names` that `name` most probably misspells: the one with the fewest slips (a letter
// inserted, deleted, replaced, or swapped with the next). Returns nullopt if every one has more slips than a
// third of the letters of `name`.
std::optional<std::string> near_name(std::string_view name, const std::vector<std::string>& names);

// Returns the end of a sentence about an unknown name: ": did you mean NAME?", or "." if no name is near.
// `prefix` precedes NAME.
std::string guess(std::string_view name, const std::vector<std::string>& names, std::string_view prefix = "");

}  // namespace nibble
