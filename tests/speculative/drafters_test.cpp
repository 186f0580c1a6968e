#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "speculative/drafters.h"
#include "speculative/text_index.h"

namespace nibble::speculative {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens tokens_from(TokenId first, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Tokens proposed(Drafter& drafter, const Tokens& text, int most) {
  drafter.push(text);
  return drafter.propose(most).tokens;
}

TEST(TextIndex, FindsEveryPlaceOfARunLatestFirst) {
  std::mt19937 random(1);
  TextIndex index(3);
  for (int n = 0; n < 3000; ++n) {
    index.push(static_cast<TokenId>(random() % 6));
    if (n % 50 != 0) continue;
    const auto text = index.tokens();
    std::vector<int> found;
    for (int place = index.latest(text); place > 0; place = index.before(place))
      if (index.num_matched(text, place, 3) == 3) found.push_back(place);
    std::vector<int> expected;
    for (auto place = static_cast<int>(text.size()); place >= 3; --place)
      if (std::equal(text.end() - 3, text.end(), text.begin() + place - 3)) expected.push_back(place);
    ASSERT_EQ(found, expected);
  }
}

TEST(Ngram, ProposesWhatFollowedTheLongestMatch) {
  NgramDrafter drafter({.least = 2, .most = 4});
  const Tokens once = {1, 2, 3, 4, 50, 51}, later = {9, 3, 4, 60, 61};
  EXPECT_THAT(proposed(drafter, once + later + Tokens{1, 2, 3, 4}, 2), ElementsAre(50, 51));
  EXPECT_EQ(drafter.propose(2).num_matched, 4);
}

TEST(Ngram, OfEqualMatchesTheLatestCounts) {
  NgramDrafter drafter({.least = 2, .most = 2});
  EXPECT_THAT(proposed(drafter, {7, 3, 4, 50, 8, 3, 4, 60, 9, 3, 4}, 1), ElementsAre(60));
}

TEST(Ngram, ProposesNothingWhereTooLittleMatches) {
  NgramDrafter drafter({.least = 3, .most = 8});
  EXPECT_THAT(drafter.propose(4).tokens, IsEmpty());
  EXPECT_THAT(proposed(drafter, {1, 2}, 4), IsEmpty());
  EXPECT_THAT(proposed(drafter, {5, 9, 1, 2}, 4), IsEmpty());
}

TEST(Ngram, GoesOnWithATextThatRepeatsItself) {
  NgramDrafter drafter({.least = 3, .most = 8});
  EXPECT_THAT(proposed(drafter, {1, 2, 1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
  NgramDrafter one({.least = 3, .most = 8});
  EXPECT_THAT(proposed(one, Tokens(20, 7), 4), ElementsAre(7, 7, 7, 7));
}

TEST(Suffix, CountsDecideWhatIsProposedAndWhereItEnds) {
  FinishedTexts finished;
  for (const TokenId last : {40, 40, 41}) finished.add(Tokens{1, 2, 3, 30, last, last + 10});
  SuffixDrafter drafter(finished);
  const Proposal proposal = (drafter.push(Tokens{9, 1, 2, 3}), drafter.propose(16));
  EXPECT_THAT(proposal.tokens, ElementsAre(30, 40, 50));
  EXPECT_EQ(proposal.num_matched, 3);
}

TEST(Suffix, AProposalIsAtMostTwiceAsLongAsWhatMatches) {
  FinishedTexts finished;
  finished.add(tokens_from(100, 50));
  SuffixDrafter drafter(finished);
  EXPECT_EQ(proposed(drafter, tokens_from(100, 4), 32), tokens_from(104, 8));
  EXPECT_EQ(proposed(drafter, tokens_from(104, 8), 32), tokens_from(112, 24));
}

TEST(Suffix, ALongMatchOutweighsRecentShortOnes) {
  FinishedTexts finished;
  finished.add(tokens_from(100, 30));
  for (int n = 0; n < 40; ++n) finished.add(Tokens{111, 112, 113, 7});
  SuffixDrafter drafter(finished);
  EXPECT_EQ(proposed(drafter, tokens_from(100, 14), 3), tokens_from(114, 3));
}

TEST(Suffix, AnswersDoNotRunIntoEachOther) {
  FinishedTexts finished;
  finished.add(Tokens{1, 2, 3});
  finished.add(Tokens{4, 5, 6});
  SuffixDrafter drafter(finished);
  EXPECT_THAT(proposed(drafter, {1, 2, 3}, 4), IsEmpty());
  EXPECT_THAT(proposed(drafter, {3, 4, 5}, 4), IsEmpty());
}

TEST(Suffix, ARequestIsDraftedForFromAnswersWithItsOwnSalt) {
  FinishedTextsBySalt finished(1000);
  const auto knows = [&](const char* salt, TokenId first) {
    const auto texts = finished.of(salt);
    SuffixDrafter drafter(*texts);
    return !proposed(drafter, tokens_from(first, 10), 4).empty();
  };
  finished.add("a", tokens_from(100, 20));
  finished.add("", tokens_from(200, 20));
  EXPECT_TRUE(knows("a", 100));
  EXPECT_TRUE(knows("", 200));
  for (const char* other : {"", "b"}) EXPECT_FALSE(knows(other, 100)) << other;
  for (const char* other : {"a", "b"}) EXPECT_FALSE(knows(other, 200)) << other;
}

TEST(Suffix, TheAnswersOfTheSaltUsedLeastRecentlyAreForgottenFirst) {
  FinishedTextsBySalt finished(1000);
  const auto num_known = [&](const std::string& salt) { return finished.of(salt)->num_tokens(); };
  finished.add("a", tokens_from(0, 400));
  const auto held = finished.of("a");
  finished.add("b", tokens_from(0, 400));
  EXPECT_GT(num_known("a"), 0u);           // now the texts of a were used more recently than those of b
  finished.add("c", tokens_from(0, 400));  // the texts of a, b and c exceed the capacity
  EXPECT_GT(num_known("a"), 0u);
  EXPECT_GT(num_known("c"), 0u);
  EXPECT_EQ(num_known("b"), 0u);
  for (int n = 0; n < 10'000; ++n) EXPECT_EQ(num_known(std::to_string(n)), 0u);
  EXPECT_EQ(num_known("a"), 0u) << "there are too many others";
  EXPECT_GT(held->num_tokens(), 0u) << "its drafters still look in it";
}

TEST(Suffix, ForgetsTheOldestAnswers) {
  FinishedTexts finished(1000);
  finished.add(tokens_from(5000, 20));
  const auto knows = [&] {
    SuffixDrafter drafter(finished);
    return !proposed(drafter, tokens_from(5000, 10), 4).empty();
  };
  EXPECT_TRUE(knows());
  for (TokenId n = 0; n < 11; ++n) finished.add(tokens_from(100 * n, 100));
  EXPECT_FALSE(knows());
  finished.add(tokens_from(0, 100'000));  // longer than the capacity
  EXPECT_LE(finished.newer().tokens().size() + finished.older().tokens().size(), 1002u);
}

TEST(Suffix, ProposesFromTheSequenceItself) {
  const FinishedTexts finished;
  SuffixDrafter drafter(finished);
  EXPECT_THAT(proposed(drafter, {1, 2, 3, 4, 5, 9, 1, 2, 3}, 2), ElementsAre(4, 5));
  SuffixDrafter repetitive(finished);
  EXPECT_THAT(proposed(repetitive, Tokens(40, 7), 5), ElementsAre(7, 7, 7, 7, 7));
}

TEST(Suffix, ATreeGoesOnWhereTheCountsSaySo) {
  FinishedTexts finished;
  for (const TokenId last : {40, 40, 40, 41, 41, 42}) finished.add(Tokens{1, 2, 3, 30, last, last + 10});
  SuffixDrafter drafter(finished, 2);
  const Proposal proposal = (drafter.push(Tokens{9, 1, 2, 3}), drafter.propose(16));
  EXPECT_THAT(proposal.tokens, ElementsAre(30, 40, 50, 41, 51)) << "42 is the third for its place";
  EXPECT_THAT(proposal.parents, ElementsAre(-1, 0, 1, 0, 3));
  EXPECT_THAT(drafter.propose(4).tokens, ElementsAre(30, 40, 50, 41));
}

TEST(Suffix, ATreeHasWhatFollowedWhereOtherAnswersEnded) {
  FinishedTexts finished;
  for (const Tokens& end : {Tokens{}, Tokens{}, Tokens{40}}) finished.add(Tokens{1, 2, 3} + end);
  SuffixDrafter chain(finished), tree(finished, 2);
  EXPECT_THAT(proposed(chain, {9, 1, 2, 3}, 4), IsEmpty());
  EXPECT_THAT(proposed(tree, {9, 1, 2, 3}, 4), ElementsAre(40));
}

Drafts drafts_with(std::vector<Draft> tokens, std::vector<int> parents) {
  return {.tokens = std::move(tokens), .parents = std::move(parents)};
}

TEST(Head, ProposesItsDraftsByTheProbabilityOfAllThatLeadToThem) {
  HeadDrafter drafter;
  drafter.take(drafts_with({{10, 0.6f}, {11, 0.3f}, {20, 0.4f}, {21, 0.4f}, {30, 1}}, {-1, -1, 0, 0, 2}));
  const Proposal proposal = drafter.propose(8);
  EXPECT_THAT(proposal.tokens, ElementsAre(10, 11, 20, 21, 30));
  EXPECT_THAT(proposal.parents, ElementsAre(-1, -1, 0, 0, 2));
  EXPECT_THAT(proposal.probabilities, ElementsAre(0.6f, 0.3f, 0.4f, 0.4f, 1));
  EXPECT_THAT(drafter.propose(2).tokens, ElementsAre(10, 11));
}

TEST(Head, ContinuesAfterARightDraft) {
  const Drafts drafts =
      drafts_with({{10, 0.6f}, {11, 0.3f}, {20, 0.1f}, {21, 0.1f}, {30, 1}}, {-1, -1, 0, 0, 2});
  HeadDrafter drafter;
  drafter.take(drafts);
  drafter.push(Tokens{10});
  EXPECT_THAT(drafter.propose(8).tokens, ElementsAre(20, 21, 30));
  EXPECT_THAT(drafter.propose(8).parents, ElementsAre(-1, -1, 0));
  drafter.push(Tokens{21});
  EXPECT_THAT(drafter.propose(8).tokens, IsEmpty());
  drafter.take(drafts);
  drafter.push(Tokens{12});
  EXPECT_THAT(drafter.propose(8).tokens, IsEmpty());
  drafter.push(Tokens{10});
  EXPECT_THAT(drafter.propose(8).tokens, IsEmpty()) << "it left them";
}

TEST(Head, TakesDraftsWithoutParentsForAChain) {
  HeadDrafter drafter;
  drafter.take(drafts_with({{10, 0.6f}, {11, 0.3f}, {12, 0.9f}}, {}));
  drafter.push(Tokens{10});
  EXPECT_THAT(drafter.propose(8).tokens, ElementsAre(11, 12));
  EXPECT_THAT(drafter.propose(8).parents, ElementsAre(-1, 0));
}

TEST(PredictionText, IsFollowedAndFoundAgainAfterADifference) {
  const Prediction prediction{.before = {900, 901, 902}, .text = tokens_from(0, 40)};
  PredictionDrafter drafter(prediction);
  EXPECT_THAT(drafter.propose(4).tokens, IsEmpty());
  EXPECT_THAT(proposed(drafter, tokens_from(700, 30) + prediction.before, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(proposed(drafter, tokens_from(0, 10), 3), ElementsAre(10, 11, 12));
  EXPECT_THAT(proposed(drafter, {500}, 3), IsEmpty());     // 10 was predicted, not 500
  EXPECT_THAT(proposed(drafter, {11, 12}, 3), IsEmpty());  // two tokens are too short for a reliable match
  EXPECT_THAT(proposed(drafter, {13}, 3), ElementsAre(14, 15, 16));
  EXPECT_THAT(proposed(drafter, tokens_from(14, 26), 3), IsEmpty()) << "its end";
}

TEST(PredictionText, OfEqualPlacesTheNearestCounts) {
  const Tokens same = {1, 2, 3};
  PredictionDrafter drafter(
      {.text = same + Tokens{10, 11, 12} + same + Tokens{20, 21, 22} + same + Tokens{30}});
  EXPECT_THAT(proposed(drafter, {10, 11, 12, 1, 2, 3, 20, 21, 99, 1, 2, 3}, 1), ElementsAre(20));
}

TEST(PredictionText, CountsTheTokensThatAnAnswerHasOfIt) {
  const Prediction prediction{.before = {900, 901, 902}, .text = tokens_from(0, 40)};
  EXPECT_EQ(num_predicted(prediction, Tokens{5} + prediction.before + tokens_from(0, 40)), 40);
  EXPECT_EQ(
      num_predicted(prediction, prediction.before + tokens_from(0, 20) + Tokens{77} + tokens_from(21, 19)),
      39);
  EXPECT_EQ(num_predicted(prediction, prediction.before + tokens_from(0, 5) + tokens_from(0, 5)), 5);
  EXPECT_EQ(num_predicted(prediction, tokens_from(200, 40)), 0);
  EXPECT_EQ(num_predicted({}, tokens_from(200, 40)), 0);
}

// A drafter takes microseconds per token and per proposal, even if all tokens of the text are equal. With
// quadratic time the test would take minutes.
TEST(Drafters, TakeTextOfAnyKindInLinearTime) {
  constexpr int kNumTokens{100'000};
  FinishedTexts finished;
  finished.add(Tokens(50'000, 1));
  const Prediction prediction{.text = Tokens(50'000, 1)};
  std::mt19937 random(3);
  for (const DrafterRow& row : drafter_table()) {
    for (const int num_different : {1, 2, 50}) {
      const auto drafter = row.make({.prediction = &prediction, .finished = &finished});
      if (!drafter) continue;  // this drafter needs a model
      for (int n = 0; n < kNumTokens; ++n) {
        const TokenId token = 1 + static_cast<TokenId>(random() % static_cast<unsigned>(num_different));
        drafter->push({&token, 1});
        if (n % 10 != 0) continue;
        ASSERT_LE(drafter->propose(16).tokens.size(), 16u) << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::speculative
