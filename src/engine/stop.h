// Ends a text before its first stop string, while the text is generated. Holds back only text that may be the
// beginning of a stop string. The stop string that is complete first counts; if several end at the same byte,
// the longest. So the result does not depend on how the text is split into pieces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

class StopStrings {
 public:
  // No string may be empty. `keeps_stop`: the text ends after the stop string, not before it.
  explicit StopStrings(std::span<const std::string> strings, bool keeps_stop = false);

  // Adds `text`. Returns text that can no longer be part of a stop string; returns nothing after the stop.
  std::string push(std::string text);
  // Returns the text that was held back, and resets the match: no stop string spans this point.
  std::string flush();
  bool has_stopped() const { return has_stopped_; }
  const std::string& stopped_by() const { return stopped_by_; }  // empty until a stop string ends the text

 private:
  struct Matcher {  // Knuth-Morris-Pratt automaton of one string: amortised constant time per byte
    explicit Matcher(std::string text);
    // Reads bytes from text[at] until the string is complete or `end` is reached. Returns where it stopped.
    size_t read(std::string_view text, size_t at, size_t end);
    bool is_complete() const { return num_matched == string.size(); }

    std::string string;
    // fallback[n]: length of the longest proper prefix of the first n + 1 bytes that is also their suffix.
    std::vector<size_t> fallback;
    size_t num_matched{0};  // length of the longest prefix of the string that is a suffix of the text
  };

  // Returns the text that is held back: the longest prefix of a stop string that ends the text.
  std::string_view held() const;

  std::vector<Matcher> matchers_;
  std::string stopped_by_;
  bool keeps_stop_, has_stopped_{false};
};

}  // namespace nibble
