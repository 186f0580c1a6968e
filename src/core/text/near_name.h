// Guesses which name a misspelt one means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

// Returns the name that `name` most probably misspells, among `names`: the one with the smallest number of
// slips (a letter inserted, deleted, replaced, or swapped with the next), if that is at most a third of its
// letters. Returns nullopt if no name is that near.
std::optional<std::string> near_name(std::string_view name, const std::vector<std::string>& names);

// Returns the end of a sentence about an unknown name: ": did you mean NAME?", or "." if no name is near.
// `prefix` precedes NAME.
std::string guess(std::string_view name, const std::vector<std::string>& names, std::string_view prefix = "");

}  // namespace nibble
