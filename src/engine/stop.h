// Ends a text before its first stop string, while the text is still being written: what may yet turn out to be the
// beginning of one is held back.
//
// First is the one that is complete first; of those complete at the same place, the longest. So the result does not
// depend on how the text was cut into pieces, and nothing waits longer than a stop string can explain.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

class StopStrings {
 public:
  explicit StopStrings(std::span<const std::string> strings);  // none of them empty

  // Adds to the text; answers what no stop string can take back any more. After the stop: nothing.
  std::string push(std::string_view text);
  // Answers what was held back. No stop string reaches across this point.
  std::string flush();
  bool has_stopped() const { return has_stopped_; }

 private:
  // Knuth, Morris and Pratt's automaton of one string: constant time for each byte, whatever the string.
  struct Matcher {
    explicit Matcher(std::string text);
    void advance(char next);
    bool is_complete() const { return num_matched == string.size(); }

    std::string string;
    std::vector<size_t>
        fallback;           // [n]: of the first n + 1 bytes, the longest proper prefix that is also their end
    size_t num_matched{0};  // the longest prefix of the string that is the end of the text
  };

  std::vector<Matcher> matchers_;
  std::string held_;
  bool has_stopped_{false};
};

}  // namespace nibble
