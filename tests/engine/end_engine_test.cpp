// Tests on the toy model how an answer ends and how its text is split into pieces.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/stop_oracle.h"
#include "tests/engine/toy_engine.h"

namespace nibble {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TokenId special(const char* name) { return tokenizer().special(name).value(); }

class EngineEnd : public EngineAnswers {};
class EngineText : public EngineAnswers {};

TEST_P(EngineEnd, AStopTokenIsReportedAndAddsNoText) {
  const Answer ordinary = answer_with(tokens_of("abcdef"), {.max_tokens = 6, .tokens = tokens_of("zd")});
  EXPECT_EQ(ordinary.tokens, tokens_of("abcd"));
  EXPECT_EQ(ordinary.text, "abc");
  EXPECT_EQ(ordinary.finished->reason, FinishReason::kStopToken);

  const TokenId end = special("<|return|>");
  const Answer control =
      answer_with(tokens_of("a") + Tokens{end} + tokens_of("b"), {.max_tokens = 3, .tokens = {end}});
  EXPECT_EQ(control.tokens, tokens_of("a") + Tokens{end});
  EXPECT_EQ(control.text, "a");
}

TEST_P(EngineEnd, AStopStringEndsTheTextBeforeItAcrossTokens) {
  const Answer answer =
      answer_with(tokens_of("one STOP two"), {.max_tokens = 12, .strings = {"STOP", "two"}});
  EXPECT_EQ(answer.text, "one ");
  EXPECT_EQ(answer.tokens, tokens_of("one STOP"));
  EXPECT_EQ(answer.finished->reason, FinishReason::kStopString);
  EXPECT_THAT(answer.pieces, ElementsAre("o", "n", "e", " ", "", "", "", ""));
}

TEST_P(EngineEnd, TextThatMightBecomeAStopStringWaitsUntilItCannot) {
  const Answer answer = answer_with(tokens_of("a STO!"), {.max_tokens = 6, .strings = {"STOP"}});
  EXPECT_THAT(answer.pieces, ElementsAre("a", " ", "", "", "", "STO!"));
  const Answer cut = answer_with(tokens_of("a ST"), {.max_tokens = 4, .strings = {"STOP"}});
  EXPECT_EQ(cut.finished->text, "ST");
  EXPECT_EQ(cut.text, "a ST");
  EXPECT_EQ(cut.finished->reason, FinishReason::kMaxTokens);
}

TEST_P(EngineEnd, TheStopIsKeptOnRequest) {
  EXPECT_EQ(
      answer_with(tokens_of("abcdef"), {.max_tokens = 6, .tokens = tokens_of("d"), .keeps_stop = true}).text,
      "abcd");
  EXPECT_EQ(
      answer_with(tokens_of("one STOP two"), {.max_tokens = 12, .strings = {"STOP"}, .keeps_stop = true})
          .text,
      "one STOP");
}

TEST_P(EngineEnd, NothingEndsAnAnswerBeforeItsLeastTokens) {
  Toy toy;
  GenerationRequest asked = request(tokens_of("x"), 60);
  asked.stop.tokens = tokens_of("abcdef");
  EXPECT_LT(toy.ask(asked).tokens.size(), 10u);
  asked.stop.min_tokens = 30;
  EXPECT_GE(toy.ask(asked).tokens.size(), 31u);
  // Stop strings are searched only in the text after the first min_tokens tokens.
  EXPECT_EQ(answer_with(tokens_of("ab ab ab"), {.max_tokens = 8, .min_tokens = 4, .strings = {"ab"}}).text,
            "ab ab ");
}

TEST_P(EngineEnd, AnAnswerWithoutATokenThatItMayHaveFailsAlone) {
  Toy toy;
  GenerationRequest asked = request(tokens_of("x"), 60);
  asked.bans = {.allowed = std::make_shared<Tokens>(tokens_of("ab")),
                .runs = {tokens_of("a"), tokens_of("bb")}};
  const Answer& answer = toy.ask(asked);
  EXPECT_EQ(answer.tokens, tokens_of("b"));
  ASSERT_TRUE(answer.failed);
  EXPECT_THAT(answer.failed->message, HasSubstr("every token is banned at position 1"));
  EXPECT_TRUE(toy.ask(request(tokens_of("x"), 5)).finished);
}

TEST_P(EngineEnd, AStopStringOfManyBytesIsFoundAcrossTheTokensOfItsCharacters) {
  const Answer answer =
      answer_with(tokens_of("caf\u00e9 \U0001F600!"), {.max_tokens = 11, .strings = {"\U0001F600"}});
  EXPECT_EQ(answer.text, "caf\u00e9 ");
  EXPECT_EQ(answer.finished->reason, FinishReason::kStopString);
  EXPECT_EQ(answer.tokens.size(), 10u);
}

TEST_P(EngineEnd, StopStringsCutRandomTextWhereSearchingItWouldCut) {
  Toy toy;
  int num_stopped = 0;
  for (int n = 0; n < 60; ++n) {
    GenerationRequest asked = request({n}, 80);
    const std::string whole = text_of(run_alone(asked));
    asked.stop.strings = {"abc", "cdef", "fffa"};
    const Answer& answer = toy.ask(asked);
    const StoppedText expected = cut_at_stop(whole, asked.stop.strings);
    EXPECT_EQ(answer.text, expected.text);
    EXPECT_EQ(answer.finished->reason == FinishReason::kStopString, expected.has_stopped);
    num_stopped += expected.has_stopped;
  }
  EXPECT_GT(num_stopped, 10);
  EXPECT_LT(num_stopped, 60);
}

TEST_P(EngineEnd, WithoutMaxTokensTheContextIsFilled) {
  EngineOptions small = options();
  small.max_context = 100;
  Toy toy(toy_logits, small);
  const Answer& answer = toy.ask(request(Tokens(30, 1), 0));
  EXPECT_EQ(answer.tokens.size(), 70u);
  EXPECT_EQ(answer.finished->reason, FinishReason::kContextFull);
  EXPECT_EQ(toy.ask(request(Tokens(30, 1), 1000)).finished->reason, FinishReason::kContextFull);
  EXPECT_EQ(toy.ask(request(Tokens(30, 1), 70)).finished->reason, FinishReason::kMaxTokens);
  EXPECT_EQ(toy.ask(request(Tokens(99, 1), 0)).tokens.size(), 1u);
}

TEST_P(EngineEnd, WithoutMaxTokensAnAnswerUsesAllOfASmallCache) {
  EngineOptions small = options();
  small.num_pages = 4;
  Toy toy(toy_logits, small);
  // 65 tokens fit in 64 positions: the last token is never fed back.
  EXPECT_EQ(toy.ask(request(Tokens(30, 1), 0)).tokens.size(), 35u);
}

TEST_P(EngineText, ACharacterComesWhenItsLastByteDoes) {
  const Answer answer = answer_with(tokens_of("\U0001F600a"), {.max_tokens = 5});
  EXPECT_THAT(answer.pieces, ElementsAre("", "", "", "\U0001F600", "a"));
}

TEST_P(EngineText, HalfACharacterAtTheEndBecomesOneReplacementCharacter) {
  const Answer answer = answer_with(tokens_of("a\xF0\x9F"), {.max_tokens = 3});
  EXPECT_THAT(answer.pieces, ElementsAre("a", "", ""));
  EXPECT_EQ(answer.finished->text, "\uFFFD");
}

TEST_P(EngineText, AControlTokenHasNoneAndEndsWhatIsWaiting) {
  const TokenId end = special("<|end|>");
  const Answer answer =
      answer_with(tokens_of("xs") + Tokens{end} + tokens_of("t\xC3") + Tokens{end} + tokens_of("\xA9"),
                  {.max_tokens = 7, .strings = {"st"}});
  EXPECT_THAT(answer.pieces, ElementsAre("x", "", "s", "t", "", "\uFFFD", "\uFFFD"));
  EXPECT_EQ(answer.finished->reason, FinishReason::kMaxTokens);
}

TEST_P(EngineText, AnIdWithoutATokenHasNone) {
  const TokenId unused = kToyVocab - 1;
  ASSERT_GE(unused, tokenizer().num_tokens());
  EXPECT_EQ(answer_with(tokens_of("a") + Tokens{unused} + tokens_of("b"), {.max_tokens = 3}).text, "ab");
}

INSTANTIATE_TEST_SUITE_P(Ahead, EngineEnd, testing::ValuesIn(kAllWays));
INSTANTIATE_TEST_SUITE_P(Ahead, EngineText, testing::ValuesIn(kAllWays));

}  // namespace
}  // namespace nibble
