#include "text/pre_tokeniser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/errors/error.h"
#include "tests/text/pieces.h"
#include "text/expression.h"

namespace nibble {
namespace {

using testing::ElementsAre;

TEST(PreTokeniser, O200kCutsWordsWithWhatStandsBeforeThem) {
  EXPECT_THAT(pieces(kO200kExpression, "Hello, wor1ds! isn't  x\n\n y"),
              ElementsAre("Hello", ",", " wor", "1", "ds", "!", " isn't", " ", " x", "\n\n", " y"));
  EXPECT_THAT(pieces(kO200kExpression, "camelCase HTTPServer 12345"),
              ElementsAre("camel", "Case", " HTTPServer", " ", "123", "45"));
}

TEST(PreTokeniser, StarThenPlusOverOverlappingClassesGivesOneBack) {
  // An ideograph (Lo) is in both classes: the star must backtrack so that the plus matches it.
  EXPECT_THAT(pieces(kO200kExpression, "AB\u4E16CD"), ElementsAre("AB\u4E16", "CD"));
  EXPECT_THAT(pieces(kO200kExpression, "\u0301AB"), ElementsAre("\u0301", "AB"));
}

TEST(PreTokeniser, TextBetweenMatchesIsAPieceToo) {
  EXPECT_THAT(pieces("b+", "abbcdb"), ElementsAre("a", "bb", "cd", "b"));
  EXPECT_THAT(pieces("x", "abc"), ElementsAre("abc"));
  EXPECT_THAT(pieces("x", ""), ElementsAre());
}

TEST(PreTokeniser, AnEmptyMatchCuts) {
  EXPECT_THAT(pieces("(?=b)", "aabab"), ElementsAre("aa", "ba", "b"));
  EXPECT_THAT(pieces("x*", "\u00E9axxb"), ElementsAre("\u00E9", "a", "xx", "b"));
}

TEST(PreTokeniser, OnePieceMayBeAMegabyte) {
  constexpr size_t kLetters{1'000'000};
  for (const std::string letter : {"a", "A", " ", "\n", "-", "\u0301", "\u4E16", "\U0001F600"}) {
    std::string text;
    while (text.size() < kLetters) text += letter;
    EXPECT_THAT(pieces(kO200kExpression, text), ElementsAre(text));
  }
}

// One alternative of the expression scans each long run to its end, and fails at the letter there. If the run
// was scanned again from each of its positions, this test would take minutes.
TEST(PreTokeniser, NoRunIsScannedAgainFromEachOfItsPlaces) {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text += std::string(100'000, ' ') + "x" + std::string(100'000, 'A') + "1" + std::string(100'000, '\n') +
            "\u0301" + std::string(100'000, 'B') + "'" + std::string(100'000, '!');
  }
  std::string joined;
  size_t num_pieces = 0;
  for (const std::string& piece : pieces(kO200kExpression, text)) {
    joined += piece;
    ++num_pieces;
  }
  EXPECT_EQ(joined, text);
  EXPECT_LT(num_pieces, 100u);
}

TEST(PreTokeniser, AnExpressionThatNeedsMoreStackThanMachineCodeHasStillMatches) {
  const std::string text(1'000'000, 'a');  // the expression needs one stack frame per letter
  EXPECT_THAT(pieces("(?:a|ab)*c|a+", text), ElementsAre(text));
}

TEST(PreTokeniser, AnExpressionThatTakesTooLongIsGivenUp) {
  // There are 2^99 ways to divide the letters, none of which matches.
  const std::string text = std::string(100, 'a') + "!b";
  EXPECT_THROW(pieces("(?:a+)+b", text), InputError);
}

}  // namespace
}  // namespace nibble
