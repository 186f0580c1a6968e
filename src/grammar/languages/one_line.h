// Untrusted text for a message of one line: control characters become spaces, and long text is cut.
#pragma once

#include <string>
#include <string_view>

#include "text/utf8.h"

namespace nibble::grammar {

inline std::string one_line(std::string_view text, size_t max_bytes = 200) {
  std::string line(text.substr(0, well_formed_prefix(text.substr(0, max_bytes))));
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  if (line.size() < text.size()) line += "...";
  return line;
}

}  // namespace nibble::grammar
