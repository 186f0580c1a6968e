// Removes and returns the part of `text` before the first `end`, and removes that `end`. Without an `end`,
// removes and returns all of `text`.
#pragma once

#include <algorithm>
#include <string_view>

namespace nibble {

inline std::string_view take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

}  // namespace nibble
