// Content: whole characters of UTF-8 without a quote, a backslash, or a control character, which most of a text is made of. Of o200k's
// tokens 97 % are nothing else.
//
// Tokens of content are shared out to slices by the kinds of characters that they have, and by a blank that they begin with. Where a
// grammar allows any text of a slice's kinds, however long a token is, the slice's bits are copied instead of found: in a JSON string all
// slices, in an identifier those of letters and digits, in \p{L}+ those of letters of all scripts. Half of o200k's tokens begin with a
// blank and have no other: of these it is asked what may follow behind the blank, so that a text that may go on with a blank, and then with
// any word, has slices as well.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nibble::grammar {

using ContentKinds = uint16_t;  // a bit for each
inline constexpr ContentKinds kLowerContent{1}, kUpperContent{2}, kDigitContent{4}, kBlankContent{8},
    kDashContent{16}, kPunctuationContent{32}, kLetterContent{64}, kWordContent{128},
    kOtherContent{256};  // the last three beyond ASCII

// A text is of the first set that has all of its kinds.
inline constexpr std::array<ContentKinds, 13> kContentSets{
    kLowerContent,
    kUpperContent,
    kLowerContent | kUpperContent,
    kDigitContent,
    kLetterContent,
    kLetterContent | kLowerContent | kUpperContent,
    kLetterContent | kWordContent,
    kLetterContent | kWordContent | kLowerContent | kUpperContent,
    kLowerContent | kDashContent,
    kLowerContent | kUpperContent | kDashContent,
    kLowerContent | kPunctuationContent,
    kLowerContent | kUpperContent | kPunctuationContent | kDashContent,
    0x1FF,
};
inline constexpr size_t kNumContentSets{kContentSets.size()};
inline constexpr uint32_t kAllContentSets{(1u << kNumContentSets) - 1};  // as bits

// Slice `set` has the tokens of that set, slice kNumContentSets + `set` those that are a blank and a text of the set. In o200k those of lower
// case, of lower and upper case, and of letters beyond ASCII have 9,000 to 47,000 tokens each, the others up to some thousands.
inline constexpr size_t kNumContentSlices{2 * kNumContentSets};
constexpr bool begins_with_blank(size_t slice) { return slice >= kNumContentSets; }
constexpr size_t set_of(size_t slice) { return slice % kNumContentSets; }
inline constexpr uint32_t kAllContentSlices{(1u << kNumContentSlices) - 1};  // as bits
// Tokens of more characters count as no content. o200k's longest has 128.
inline constexpr uint32_t kMaxContentCharacters{128};

struct CharacterRange {
  char32_t first, last;
};
// Letters beyond ASCII: runs of code points that are all of category L. There are many more, of some code points each; these hold 95 % of
// o200k's tokens of such letters. Source: the Unicode Character Database, 14.0; no later version takes a letter back.
inline constexpr CharacterRange kLetterRanges[]{
    {0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x2C1},    {0x3A3, 0x3F5},   {0x3F7, 0x481},
    {0x48A, 0x52F},   {0x531, 0x556},   {0x560, 0x588},   {0x5D0, 0x5EA},   {0x620, 0x64A},
    {0x671, 0x6D3},   {0x904, 0x939},   {0xD12, 0xD3A},   {0xE01, 0xE30},   {0x1000, 0x102A},
    {0x10D0, 0x10FA}, {0x10FC, 0x1248}, {0x1260, 0x1288}, {0x1290, 0x12B0}, {0x12D8, 0x1310},
    {0x1318, 0x135A}, {0x1780, 0x17B3}, {0x1E00, 0x1F15}, {0x3041, 0x3096}, {0x30A1, 0x30FA},
    {0x3400, 0x4DBF}, {0x4E00, 0xA48C}, {0xAC00, 0xD7A3},
};
// Says which of the words' characters from `first` to `last` are: letters, others, or both.
constexpr ContentKinds word_kinds(char32_t first, char32_t last) {
  ContentKinds kinds = 0;
  char32_t next = first;  // the first one that is not told yet
  for (const CharacterRange& letters : kLetterRanges) {
    if (letters.last < next) continue;
    if (letters.first > last) break;
    if (letters.first > next) kinds |= kWordContent;
    kinds |= kLetterContent;
    next = letters.last + 1;
  }
  return next <= last ? kinds | kWordContent : kinds;
}

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
  for (const Range& range : kRanges) {
    if (range.first > last || range.last < first) continue;
    kinds |= range.kind == kWordContent ? word_kinds(range.first > first ? range.first : first,
                                                     range.last < last ? range.last : last)
                                        : range.kind;
  }
  return kinds;
}

// Tells how long texts of each set may be at a place.
struct ContentRuns {
  // For each set: every such text of up to so many characters may follow; kMaxContentCharacters: of any number.
  std::array<uint8_t, kNumContentSets> num_characters{};
  // Bits by set: no such text of one character more may follow.
  uint32_t ends_there{0};
  // Behind every such text the whole may end with any number of further characters from this one on; kNever: not so. Worked out
  // only where lengths are asked for as well.
  std::array<uint16_t, kNumContentSets> num_missing{};
  static constexpr uint16_t kNever{0xFFFF};
};

}  // namespace nibble::grammar
