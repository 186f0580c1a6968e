// Turns a stream of bytes, cut anywhere, into a stream of valid UTF-8: half a character is held back until the rest comes.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

class Utf8Stream {
 public:
  // Returns the whole characters so far. Bytes that can't be part of any character become U+FFFD, one for each maximal
  // ill-formed part (the Unicode Standard's recommended practice, which Python and browsers follow).
  std::string push(std::string_view bytes);
  // Ends the text: half a character becomes one U+FFFD. The stream is then empty and may be used again.
  std::string finish();

  bool is_waiting() const { return !pending_.empty(); }

 private:
  std::string pending_;  // a proper prefix of one character: at most 3 bytes
};

}  // namespace nibble
