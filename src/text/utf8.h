// Splits bytes into UTF-8 characters and ill-formed parts (Unicode Standard, table 3-7). Overlong forms,
// surrogates and code points above U+10FFFF are ill-formed. An ill-formed part ends before the byte that
// proves it ill-formed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble {

enum class Utf8Kind {
  kCharacter,
  // A maximal subpart: the start of a character without its end, or a single stray byte.
  kIllFormed,
  // The start of a character that the end of the bytes cuts off.
  kIncomplete,
};

struct Utf8Part {
  Utf8Kind kind;
  size_t num_bytes;
};

// `bytes` must not be empty.
Utf8Part first_utf8_part(std::string_view bytes);

struct Character {
  char32_t code_point;
  size_t num_bytes;
};

// `text` must be well-formed and not empty.
Character first_character(std::string_view text);

// The code point must not be a surrogate or above U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

// Returns the number of leading ASCII bytes. A fast path: most text is ASCII.
size_t ascii_prefix(std::string_view bytes);

// Returns the number of leading bytes that form complete characters.
size_t well_formed_prefix(std::string_view bytes);

}  // namespace nibble
