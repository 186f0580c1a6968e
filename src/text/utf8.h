// Where one character ends and where bytes are no character: the Unicode Standard's table 3-7, "Well-Formed UTF-8 Byte
// Sequences". Overlong forms, surrogates and what lies beyond U+10FFFF are ill-formed from the byte that says so.
#pragma once

#include <cstddef>
#include <string_view>

namespace nibble {

enum class Utf8Kind {
  kCharacter,
  kIllFormed,  // a maximal subpart: the longest start of a character that its next byte contradicts, or one stray byte
  kIncomplete,  // the start of a character, and the bytes end
};

struct Utf8Part {
  Utf8Kind kind;
  size_t num_bytes;
};

// What `bytes`, which must not be empty, begins with.
Utf8Part first_utf8_part(std::string_view bytes);

struct Character {
  char32_t code_point;
  size_t num_bytes;
};

// Of `text`, which must be well-formed and not empty.
Character first_character(std::string_view text);

// How many bytes from the start are ASCII, rounded down to a multiple of 8: the fast way through most texts.
size_t ascii_prefix(std::string_view bytes);

// How many bytes from the start are whole characters.
size_t well_formed_prefix(std::string_view bytes);

}  // namespace nibble
