// Splits bytes into UTF-8 characters and ill-formed parts, by the Unicode Standard's table 3-7, "Well-Formed UTF-8 Byte
// Sequences". Overlong forms, surrogates and code points beyond U+10FFFF are ill-formed from the first byte that shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nibble {

enum class Utf8Kind {
  kCharacter,
  kIllFormed,   // a maximal subpart: the beginning of a character that breaks off, or one stray byte
  kIncomplete,  // the beginning of a character at the end of the bytes
};

struct Utf8Part {
  Utf8Kind kind;
  size_t num_bytes;
};

// The part with which `bytes`, which must not be empty, begins.
Utf8Part first_utf8_part(std::string_view bytes);

struct Character {
  char32_t code_point;
  size_t num_bytes;
};

// The first character of `text`, which must be well-formed and not empty.
Character first_character(std::string_view text);

// Appends a character, which must be no surrogate and not beyond U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

// The number of ASCII bytes at the beginning, rounded down to a multiple of 8: a fast path for most texts.
size_t ascii_prefix(std::string_view bytes);

// The number of bytes at the beginning that are whole characters.
size_t well_formed_prefix(std::string_view bytes);

}  // namespace nibble
