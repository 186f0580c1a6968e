// Defines stop strings on a whole text. The streaming search must give the same result, however the text is
// split.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nibble {

struct StoppedText {
  std::string text;
  bool has_stopped;
};

// Cuts the text before the stop string that is complete first. If several are complete at the same position,
// cuts before the longest.
inline StoppedText cut_at_stop(std::string_view text, std::span<const std::string> strings) {
  std::optional<size_t> begin, end;
  for (const std::string& string : strings) {
    const size_t at = text.find(string);
    if (at == std::string_view::npos) continue;
    if (end && at + string.size() > *end) continue;
    if (!end || at + string.size() < *end || at < *begin) begin = at;
    end = at + string.size();
  }
  return {std::string(text.substr(0, begin.value_or(text.size()))), begin.has_value()};
}

// Returns the number of bytes at the end of a text that may still become a stop string: the longest suffix of
// the text that is a prefix of a stop string.
inline size_t num_uncertain(std::string_view text, std::span<const std::string> strings) {
  size_t most = 0;
  for (const std::string& string : strings)
    for (size_t n = 1; n < string.size() && n <= text.size(); ++n)
      if (text.substr(text.size() - n) == std::string_view(string).substr(0, n)) most = std::max(most, n);
  return most;
}

}  // namespace nibble
