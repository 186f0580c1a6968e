#include "engine/stop.h"

#include <algorithm>
#include <utility>

#include "core/errors/check.h"

namespace nibble {

StopStrings::Matcher::Matcher(std::string text) : string(std::move(text)), fallback(string.size()) {
  NIBBLE_CHECK(!string.empty());
  for (size_t i = 1, length = 0; i < string.size(); ++i) {
    while (length > 0 && string[i] != string[length]) length = fallback[length - 1];
    if (string[i] == string[length]) ++length;
    fallback[i] = length;
  }
}

size_t StopStrings::Matcher::read(std::string_view text, size_t at, size_t end) {
  while (at < end && !is_complete()) {
    const char next = text[at++];
    while (num_matched > 0 && string[num_matched] != next) num_matched = fallback[num_matched - 1];
    if (string[num_matched] == next) ++num_matched;
  }
  return at;
}

StopStrings::StopStrings(std::span<const std::string> strings, bool keeps_stop) : keeps_stop_(keeps_stop) {
  for (const std::string& string : strings) matchers_.emplace_back(string);
}

std::string_view StopStrings::held() const {
  std::string_view longest;
  for (const Matcher& matcher : matchers_)
    if (matcher.num_matched > longest.size())
      longest = std::string_view(matcher.string).substr(0, matcher.num_matched);
  return longest;
}

std::string StopStrings::push(std::string text) {
  if (has_stopped_) return {};
  const std::string_view held_before = held();
  if (!held_before.empty()) text.insert(0, held_before);
  size_t end = text.size(), num_stopped = 0;  // end and length of the first stop string; length 0: not found
  for (Matcher& matcher : matchers_) {
    const size_t read_to = matcher.read(text, held_before.size(), end);
    if (!matcher.is_complete()) continue;
    num_stopped = read_to < end ? matcher.string.size() : std::max(num_stopped, matcher.string.size());
    end = read_to;
  }
  if (num_stopped > 0) {
    has_stopped_ = true;
    stopped_by_ = text.substr(end - num_stopped, num_stopped);
    text.resize(keeps_stop_ ? end : end - num_stopped);
  } else {
    text.resize(end - held().size());
  }
  return text;
}

std::string StopStrings::flush() {
  std::string text(has_stopped_ ? std::string_view() : held());
  for (Matcher& matcher : matchers_) matcher.num_matched = 0;
  return text;
}

}  // namespace nibble
