// Splits text from the front: items of a list, lines, words.
#pragma once

#include <algorithm>
#include <string_view>

namespace nibble {

// Removes the part before the first `end` from `text`, and that `end`; all of it where there is none. Returns the part.
inline std::string_view take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

}  // namespace nibble
