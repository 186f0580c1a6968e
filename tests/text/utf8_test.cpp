#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace nibble {
namespace {

std::string utf8(uint32_t c) {
  if (c < 0x80) return {char(c)};
  if (c < 0x800) return {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
  return {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)), char(0x80 | (c >> 6 & 0x3F)),
          char(0x80 | (c & 0x3F))};
}

bool is_surrogate(uint32_t c) { return 0xD800 <= c && c < 0xE000; }

TEST(Utf8, EveryCodePointIsOneCharacterAndItsStartsAreIncomplete) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (is_surrogate(c)) continue;
    const std::string text = utf8(c);
    std::string appended = "x";
    append_utf8(appended, c);
    ASSERT_EQ(appended, "x" + text);
    const Utf8Part part = first_utf8_part(text + "x");
    ASSERT_EQ(part.kind, Utf8Kind::kCharacter) << c;
    ASSERT_EQ(part.num_bytes, text.size()) << c;
    ASSERT_EQ(first_character(text + "x").code_point, c);
    ASSERT_EQ(first_character(text + "x").num_bytes, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Part start = first_utf8_part(text.substr(0, cut));
      ASSERT_EQ(start.kind, Utf8Kind::kIncomplete) << c;
      ASSERT_EQ(start.num_bytes, cut) << c;
    }
  }
}

TEST(Utf8, NoOtherBytesAreACharacter) {
  size_t num_characters = 0;  // number of strings of 1 to 3 bytes that are one character
  for (uint32_t bytes = 0; bytes < 1 << 24; ++bytes) {
    const std::string text{char(bytes >> 16), char(bytes >> 8), char(bytes)};
    const Utf8Part part = first_utf8_part(text);
    if (part.kind != Utf8Kind::kCharacter) continue;
    num_characters += part.num_bytes == 3;
    if ((bytes & 0xFF) == 0) num_characters += part.num_bytes == 2;
    if ((bytes & 0xFFFF) == 0) num_characters += part.num_bytes == 1;
  }
  EXPECT_EQ(num_characters, 0x10000u - 0x800u);
}

TEST(Utf8, ACharacterIsIllFormedFromTheByteThatContradictsIt) {
  const auto num_ill_formed = [](std::string_view bytes) {
    const Utf8Part part = first_utf8_part(bytes);
    return part.kind == Utf8Kind::kIllFormed ? part.num_bytes : 0;
  };
  EXPECT_EQ(num_ill_formed("\x80"), 1u);              // a continuation without a start
  EXPECT_EQ(num_ill_formed("\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(num_ill_formed("\xE0\x9F\xBF"), 1u);      // overlong
  EXPECT_EQ(num_ill_formed("\xED\xA0\x80"), 1u);      // a surrogate
  EXPECT_EQ(num_ill_formed("\xF0\x8F\xBF\xBF"), 1u);  // overlong
  EXPECT_EQ(num_ill_formed("\xF4\x90\x80\x80"), 1u);  // beyond U+10FFFF
  EXPECT_EQ(num_ill_formed("\xF5\x80"), 1u);
  EXPECT_EQ(num_ill_formed("\xE2\x82x"), 2u);
  EXPECT_EQ(num_ill_formed("\xF0\x9F\x98x"), 3u);
}

TEST(Utf8, TheWellFormedPrefixEndsAtAnyPlaceAmongTheEightByteSteps) {
  for (size_t num_ascii = 0; num_ascii < 20; ++num_ascii) {
    const std::string text = std::string(num_ascii, 'a') + "\xC3\xA9" + std::string(num_ascii, 'b');
    EXPECT_EQ(well_formed_prefix(text), text.size());
    EXPECT_EQ(well_formed_prefix(text + "\xFFzzzzzzzzzz"), text.size());
    EXPECT_EQ(well_formed_prefix(text + "\xE2\x82"), text.size());
  }
}

}  // namespace
}  // namespace nibble
