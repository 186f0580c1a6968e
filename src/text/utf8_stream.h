// Turns a stream of bytes, cut at any place, into valid UTF-8. Incomplete characters wait for more bytes.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

class Utf8Stream {
 public:
  // Appends bytes, and returns all characters that are now complete. Each maximal ill-formed part becomes
  // U+FFFD, as the Unicode Standard recommends and as Python and browsers do.
  std::string push(std::string_view bytes);
  // Ends the text: an incomplete character becomes one U+FFFD. A new text may follow.
  std::string finish();

  bool is_waiting() const { return !pending_.empty(); }

 private:
  std::string pending_;  // start of one character: at most 3 bytes
};

}  // namespace nibble
