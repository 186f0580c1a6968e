// Turns a stream of bytes, cut anywhere, into a stream of valid UTF-8. An incomplete character is held back
// until the rest of it arrives.
#pragma once

#include <string>
#include <string_view>

namespace nibble {

class Utf8Stream {
 public:
  // Appends bytes and returns all characters that are now complete. Bytes that can't be part of any character
  // become U+FFFD, one for each maximal ill-formed part (the practice that the Unicode Standard recommends
  // and that Python and browsers follow).
  std::string push(std::string_view bytes);
  // Ends the text: an incomplete character becomes one U+FFFD. The stream is then empty and may be used
  // again.
  std::string finish();

  bool is_waiting() const { return !pending_.empty(); }

 private:
  std::string pending_;  // a proper prefix of one character: at most 3 bytes
};

}  // namespace nibble
