// Letters, marks and numbers that Unicode 15.0, 15.1 and 16.0 added. PCRE2 10.42 (Debian 12) knows Unicode
// 14, but tiktoken and Hugging Face's tokenizers split by Unicode 16. Older characters have the same
// categories in all of these versions. In this table all marks have category M and all numbers N. Source:
// General_Category in UnicodeData.txt of 14.0 and 16.0.
#pragma once

#include <span>
#include <string_view>

namespace nibble {

struct AssignedRange {
  char32_t first, last;
  std::string_view category;  // Lu, Ll, Lm, Lo, M or N
};

std::span<const AssignedRange> assigned_since_unicode_14();

// Whether `text`, which must be well-formed UTF-8, contains a character of this table.
bool has_character_since_unicode_14(std::string_view text);

}  // namespace nibble
