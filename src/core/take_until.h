// Splits the next item off the front of a text: items of a list, lines, words.
#pragma once

#include <algorithm>
#include <string_view>

namespace nibble {

// Returns the part of `text` before the first `end`, and removes that part and the `end` from `text`. Without
// an `end`, takes all of `text`.
inline std::string_view take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

}  // namespace nibble
