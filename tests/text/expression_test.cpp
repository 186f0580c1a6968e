#include "text/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/text/pieces.h"

namespace nibble {
namespace {

using testing::ElementsAre;

TEST(Expression, WhitespaceIsUnicodesAndSoWithoutTheMongolianVowelSeparator) {
  // Lists all characters of White_Space. The list has not changed since Unicode 6.3.
  for (const std::string space :
       {"\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\u0085", "\u00A0", "\u1680",
        "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
        "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    EXPECT_THAT(pieces("\\s", "a" + space + space + "b"), ElementsAre("a", space, space, "b"));
    EXPECT_THAT(pieces("[x\\s]+", "a" + space + "xb"), ElementsAre("a", space + "x", "b"));
    EXPECT_THAT(pieces("[^\\S]", "a" + space + "b"), ElementsAre("a", space, "b"));
  }
  for (const std::string other : {"\u180E", "\u200B", "\uFEFF", "_"})
    EXPECT_THAT(pieces("\\S+", " a" + other + "b "), ElementsAre(" ", "a" + other + "b", " "));
}

TEST(Expression, CategoriesAreThoseOfUnicode16) {
  // All are newer than Unicode 14: U+1C89 and U+10D50 are capitals, U+1C8A and U+10D70 their lower-case
  // letters, U+10D69 a mark, U+10D40 a digit. U+31350 is an ideograph of 15.0; U+323B0 is unassigned.
  EXPECT_THAT(pieces("\\p{Lu}\\p{Ll}", "\u1C89\u1C8A\U00010D50\U00010D70"),
              ElementsAre("\u1C89\u1C8A", "\U00010D50\U00010D70"));
  EXPECT_THAT(pieces("[^\\p{L}]+", "a\U00010D50\U00010D40\U00010D69b"),
              ElementsAre("a\U00010D50", "\U00010D40\U00010D69", "b"));
  EXPECT_THAT(pieces("\\P{M}+", "a\U00010D69b"), ElementsAre("a", "\U00010D69", "b"));
  EXPECT_THAT(pieces("\\p{N}{2}", "\U00010D40\U00010D41\U00010D42"),
              ElementsAre("\U00010D40\U00010D41", "\U00010D42"));
  EXPECT_THAT(pieces("\\p{Lo}+", "\U000323AF\U000323B0"), ElementsAre("\U000323AF", "\U000323B0"));
}

TEST(Expression, CaseIsFoldedByUnicode) {
  EXPECT_THAT(pieces("(?i:'s|'ve)", "a'Sb'\u017Fc'vE"), ElementsAre("a", "'S", "b", "'\u017F", "c", "'vE"));
}

TEST(Expression, WhatEnginesReadDifferentlyIsRefused) {
  for (const char* expression :
       {"\\w+",      "\\d",         "\\h",     "\\b",      "\\x41", "\\1",        "\\Qa\\E",
        "a\\",                                                                              // escapes
        "\\p{Han}",  "\\p{^L}",     "\\pL",    "\\p{Lu",   "\\p",   "\\p{P}",     "\\p{}",  // properties
        "[a[b]]",    "[[:alpha:]]", "[a&&b]",  "[]a]",     "[^]a]", "[\\P{L}]",   "[\\p{L}-a]",
        "[\\p{N}-]",  // sets
        "(?i)a",     "(?m:a)",      "(?<n>a)", "(?R)",     "(?C)",  "(*NO_JIT)a", "(?i:\\p{L})", "(?i:[a-z])",
        "(?i:a",  // groups
        "a{,3}",     "a{1,3}+",     "a{b}",    "a{1,2,3}", "a{",    ".",          "^a",          "a$"}) {
    EXPECT_THROW(pieces(expression, "a"), InputError) << expression;
  }
}

TEST(Expression, TheMessageSaysWhatIsRefusedAndWhere) {
  EXPECT_THAT(error_of([] { pieces("a|\\w+", ""); }),
              testing::StartsWith("test: the split expression is not supported at '\\w+': "));
}

TEST(Expression, WhatDoesNotCompileIsRefused) {
  for (const char* expression : {"(a", "a)", "[a", "*", "a{3,1}", "[z-a]", "(?<=a*)b", "\xFF"})
    EXPECT_THROW(pieces(expression, "a"), InputError) << expression;
}

TEST(Expression, PlainConstructsAreKept) {
  EXPECT_THAT(pieces("ab?c*|[x-z]+?|(?:d|e){2}|\\[|f++|(g)(?=h)|(?<!i)j|(?>k+)l", "abccxyzded[ffghijjkkl"),
              ElementsAre("abcc", "x", "y", "z", "de", "d", "[", "ff", "g", "hij", "j", "kkl"));
  EXPECT_THAT(pieces("[\\]\\-a]+", "xa-]x"), ElementsAre("x", "a-]", "x"));
}

}  // namespace
}  // namespace nibble
