// Content: complete UTF-8 characters other than quotes, backslashes and control characters; 97 % of o200k's
// tokens are content only. These tokens are divided into slices, by the kinds of their characters and by
// whether they begin with a space. Where a grammar allows any text of a slice's kinds, the slice's bits are
// simply copied: all slices in a JSON string, letters and digits in an identifier, letters of all scripts in
// \p{L}+. A token that begins with a space (half of o200k's do) is classified by its remaining characters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace nibble::grammar {

using ContentKinds = uint16_t;
// Kinds of content characters, as bits. Characters beyond ASCII have one of the last three kinds.
inline constexpr ContentKinds kLowerContent{1}, kUpperContent{2}, kDigitContent{4}, kBlankContent{8},
    kDashContent{16}, kPunctuationContent{32}, kLetterContent{64}, kWordContent{128}, kOtherContent{256};

// Sets of kinds. A text belongs to the first set that contains the kinds of all its characters.
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
inline constexpr uint32_t kAllContentSets{(1u << kNumContentSets) - 1};

// Slice `set` has the tokens of that set. Slice kNumContentSets + `set` has the tokens with a space and then
// a text of the set. The largest slice of o200k (letters) has 47,000 tokens; most slices have at most a few
// thousand.
inline constexpr size_t kNumContentSlices{2 * kNumContentSets};
constexpr bool begins_with_blank(size_t slice) { return slice >= kNumContentSets; }
constexpr size_t set_of(size_t slice) { return slice % kNumContentSets; }
inline constexpr uint32_t kAllContentSlices{(1u << kNumContentSlices) - 1};
// Longer tokens do not count as content. The longest token of o200k has 128 characters.
inline constexpr uint32_t kMaxContentCharacters{128};

struct CharacterRange {
  char32_t first, last;
};
// Ranges of letters beyond ASCII: all code points are of category L. The ranges cover 95 % of o200k's tokens
// of such letters. Source: Unicode 14.0; no later version removes a letter from category L.
inline constexpr CharacterRange kLetterRanges[]{
    {0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x2C1},    {0x3A3, 0x3F5},   {0x3F7, 0x481},
    {0x48A, 0x52F},   {0x531, 0x556},   {0x560, 0x588},   {0x5D0, 0x5EA},   {0x620, 0x64A},
    {0x671, 0x6D3},   {0x904, 0x939},   {0xD12, 0xD3A},   {0xE01, 0xE30},   {0x1000, 0x102A},
    {0x10D0, 0x10FA}, {0x10FC, 0x1248}, {0x1260, 0x1288}, {0x1290, 0x12B0}, {0x12D8, 0x1310},
    {0x1318, 0x135A}, {0x1780, 0x17B3}, {0x1E00, 0x1F15}, {0x3041, 0x3096}, {0x30A1, 0x30FA},
    {0x3400, 0x4DBF}, {0x4E00, 0xA48C}, {0xAC00, 0xD7A3},
};
// Returns the kinds of the word characters from `first` to `last`: kLetterContent for those in kLetterRanges,
// kWordContent for the others.
constexpr ContentKinds word_kinds(char32_t first, char32_t last) {
  ContentKinds kinds = 0;
  char32_t next = first;  // first code point not yet classified
  for (const CharacterRange& letters : kLetterRanges) {
    if (letters.last < next) continue;
    if (letters.first > last) break;
    if (letters.first > next) kinds |= kWordContent;
    kinds |= kLetterContent;
    next = letters.last + 1;
  }
  return next <= last ? kinds | kWordContent : kinds;
}

// Returns the kinds of the characters from `first` to `last`; 0 if none of them is content.
constexpr ContentKinds content_kinds(char32_t first, char32_t last) {
  struct Range {
    char32_t first, last;
    ContentKinds kind;
  };
  // Beyond ASCII: spaces, punctuation and symbols are kOtherContent, everything else kWordContent.
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

// For one position of a text and each content set: the lengths of the set's texts that may follow there.
struct ContentRuns {
  // [set]: every text of the set up to this length may follow. kMaxContentCharacters: no limit.
  std::array<uint8_t, kNumContentSets> num_characters{};
  // Bit `set`: no text of the set that is longer than num_characters[set] may follow.
  uint32_t ends_there{0};
  // [set]: only for patterns with length limits. After any text of the set, the pattern still allows an end
  // after this number of further characters and after every larger number. kNever: no such number exists, or
  // num_characters[set] is limited.
  std::array<uint16_t, kNumContentSets> num_missing{};
  static constexpr uint16_t kNever{0xFFFF};
};

}  // namespace nibble::grammar
