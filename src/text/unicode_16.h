// The letters, marks and numbers that Unicode 15.0, 15.1 and 16.0 added. PCRE2 10.42 (Debian 12) knows
// Unicode 14, but tiktoken and Hugging Face's tokenizers split text by Unicode 16. No character of version 14
// moved into, out of or between these categories. Source: UnicodeData.txt of both versions, field
// General_Category; all marks are one class here, and so are all numbers.
#pragma once

#include <span>
#include <string_view>

namespace nibble {

struct AssignedRange {
  char32_t first, last;
  std::string_view category;  // Lu, Ll, Lm, Lo, M or N
};

std::span<const AssignedRange> assigned_since_unicode_14();

// Returns true if `text`, which must be well-formed UTF-8, contains one of these characters.
bool has_character_since_unicode_14(std::string_view text);

}  // namespace nibble
