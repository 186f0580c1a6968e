// Content: whole characters of UTF-8 without a quote, a backslash, or a control character, which most of a text is made of. Of o200k's
// tokens 97 % are nothing else.
//
// Tokens of content are shared out to slices by the kinds of characters that they have. Where a grammar allows any text of a slice's
// kinds, however long a token is, the slice's bits are copied instead of found: in a JSON string all slices, in an identifier those of
// letters and digits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nibble::grammar {

using ContentKinds = uint8_t;  // a bit for each
inline constexpr ContentKinds kLowerContent{1}, kUpperContent{2}, kDigitContent{4}, kBlankContent{8},
    kDashContent{16}, kPunctuationContent{32}, kWordContent{64},
    kOtherContent{128};  // the last two beyond ASCII

// A token is of the first slice that has all of its kinds. In o200k those of lower and upper case with and without a blank, and of words
// beyond ASCII, have 20,000 to 50,000 tokens each, the others some thousands.
inline constexpr std::array<ContentKinds, 14> kContentSlices{
    kLowerContent,
    kLowerContent | kBlankContent,
    kUpperContent,
    kLowerContent | kUpperContent,
    kLowerContent | kUpperContent | kBlankContent,
    kDigitContent,
    kWordContent,
    kWordContent | kBlankContent,
    kWordContent | kLowerContent | kUpperContent | kBlankContent,
    kLowerContent | kDashContent,
    kLowerContent | kUpperContent | kDashContent,
    kLowerContent | kPunctuationContent,
    kLowerContent | kUpperContent | kPunctuationContent | kDashContent,
    0xFF,
};
inline constexpr size_t kNumContentSlices{kContentSlices.size()};
inline constexpr uint32_t kAllContentSlices{(1u << kNumContentSlices) - 1};  // as bits
// Tokens of more characters count as no content. o200k's longest has 128.
inline constexpr uint32_t kMaxContentCharacters{128};

// The kinds that the characters from `first` to `last` have; 0: none of them is content.
constexpr ContentKinds content_kinds(char32_t first, char32_t last) {
  struct Range {
    char32_t first, last;
    ContentKinds kind;
  };
  // Beyond ASCII: blanks, punctuation and symbols, and all else, which is mostly words.
  constexpr Range kRanges[]{
      {'a', 'z', kLowerContent},       {'A', 'Z', kUpperContent},        {'0', '9', kDigitContent},
      {' ', ' ', kBlankContent},       {'-', '-', kDashContent},         {'_', '_', kDashContent},
      {'!', '!', kPunctuationContent}, {'#', ',', kPunctuationContent},  {'.', '/', kPunctuationContent},
      {':', '@', kPunctuationContent}, {'[', '[', kPunctuationContent},  {']', '^', kPunctuationContent},
      {'`', '`', kPunctuationContent}, {'{', '~', kPunctuationContent},  {0x80, 0xBF, kOtherContent},
      {0xC0, 0x167F, kWordContent},    {0x1680, 0x1680, kOtherContent},  {0x1681, 0x180D, kWordContent},
      {0x180E, 0x180E, kOtherContent}, {0x180F, 0x1FFF, kWordContent},   {0x2000, 0x2BFF, kOtherContent},
      {0x2C00, 0x2FFF, kWordContent},  {0x3000, 0x303F, kOtherContent},  {0x3040, 0xFEFE, kWordContent},
      {0xFEFF, 0xFEFF, kOtherContent}, {0xFF00, 0x10FFFF, kWordContent},
  };
  ContentKinds kinds = 0;
  for (const Range& range : kRanges)
    if (range.first <= last && range.last >= first) kinds |= range.kind;
  return kinds;
}

// Tells how long texts of each slice's kinds may be at a place.
struct ContentRuns {
  // For each slice: every such text of up to so many characters may follow; kMaxContentCharacters: of any number.
  std::array<uint8_t, kNumContentSlices> num_characters{};
  // Bits by slice: no such text of one character more may follow.
  uint32_t ends_there{0};
  // Behind every such text the whole may end with any number of further characters from this one on; kNever: not so. Worked out
  // only where lengths are asked for as well.
  std::array<uint16_t, kNumContentSlices> num_missing{};
  static constexpr uint16_t kNever{0xFFFF};
};

}  // namespace nibble::grammar
