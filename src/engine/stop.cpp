#include "engine/stop.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace nibble {

StopStrings::Matcher::Matcher(std::string text) : string(std::move(text)), fallback(string.size()) {
  NIBBLE_CHECK(!string.empty());
  for (size_t i = 1, length = 0; i < string.size(); ++i) {
    while (length > 0 && string[i] != string[length]) length = fallback[length - 1];
    if (string[i] == string[length]) ++length;
    fallback[i] = length;
  }
}

void StopStrings::Matcher::advance(char next) {
  while (num_matched > 0 && string[num_matched] != next) num_matched = fallback[num_matched - 1];
  if (string[num_matched] == next) ++num_matched;
}

StopStrings::StopStrings(std::span<const std::string> strings, bool keeps_stop) : keeps_stop_(keeps_stop) {
  for (const std::string& string : strings) matchers_.emplace_back(string);
}

std::string StopStrings::push(std::string_view text) {
  if (has_stopped_) return {};
  size_t num_read = held_.size();
  held_ += text;
  while (num_read < held_.size()) {
    const char next = held_[num_read++];
    size_t num_stopped = 0;  // length of the longest stop string that ends with `next`
    for (Matcher& matcher : matchers_) {
      matcher.advance(next);
      if (matcher.is_complete()) num_stopped = std::max(num_stopped, matcher.num_matched);
    }
    if (num_stopped == 0) continue;
    has_stopped_ = true;
    stopped_by_ = held_.substr(num_read - num_stopped, num_stopped);
    held_.resize(keeps_stop_ ? num_read : num_read - num_stopped);
    return std::exchange(held_, {});
  }
  size_t num_uncertain = 0;
  for (const Matcher& matcher : matchers_) num_uncertain = std::max(num_uncertain, matcher.num_matched);
  std::string uncertain = held_.substr(held_.size() - num_uncertain);
  held_.resize(held_.size() - num_uncertain);
  return std::exchange(held_, std::move(uncertain));
}

std::string StopStrings::flush() {
  for (Matcher& matcher : matchers_) matcher.num_matched = 0;
  return std::exchange(held_, {});
}

}  // namespace nibble
