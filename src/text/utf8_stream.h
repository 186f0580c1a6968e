// Turns a stream of bytes, cut anywhere, into a stream of valid UTF-8: half a character waits for its other half.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

class Utf8Stream {
 public:
  // What can be said of the text so far. Bytes that can't be part of any character become U+FFFD, one for each maximal
  // ill-formed part (the Unicode Standard's recommended practice, which Python and the browsers follow).
  std::string push(std::string_view bytes);
  // The end: what still waits becomes one U+FFFD. The stream is then empty and may be used again.
  std::string finish();

  bool is_waiting() const { return !pending_.empty(); }

 private:
  std::string pending_;  // a proper prefix of one character: at most 3 bytes
};

}  // namespace nibble
