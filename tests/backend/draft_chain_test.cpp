// Tests where a draft head's drafts begin, by what the rows of a step chose.
#include "backend/draft_chain.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nibble {
namespace {

// One run: tokens 10, 11, ...; `choices` are those of the output rows, from `first_output` on.
struct SlotsOfRun {
  std::vector<TokenId> tokens;
  std::vector<OutputRow> outputs;
  std::vector<SampledToken> chosen;
  SampleParams sample;
  Run run;

  SlotsOfRun(int num_tokens, int num_drafted, int first_output, const std::vector<TokenId>& choices) {
    for (int n = 0; n < num_tokens; ++n) tokens.push_back(10 + n);
    for (const TokenId token : choices) {
      outputs.push_back({.token_index = first_output + static_cast<int>(outputs.size()), .sample = &sample});
      chosen.push_back({.token = token});
    }
    run = {.tokens = tokens,
           .first_position = 100,
           .outputs = outputs,
           .num_drafted = num_drafted,
           .num_to_draft = 3};
  }
  DraftSlots slots() { return draft_slots({.runs = {&run, 1}}, chosen); }
};

TEST(DraftSlots, FollowTheTokenBehindThePrompt) {
  const DraftSlots slots = SlotsOfRun(4, 0, 3, {77}).slots();
  EXPECT_EQ(slots.next, (std::vector<TokenId>{11, 12, 13, 77}));
  ASSERT_EQ(slots.chains.size(), 1u);
  EXPECT_EQ(slots.chains[0].row, 3);
  EXPECT_EQ(slots.chains[0].position, 103);
  EXPECT_EQ(slots.chains[0].num_drafts, 3);
}

TEST(DraftSlots, FollowTheLastRightDraft) {
  // Known 10, drafts 11, 12, 13: the first two are right.
  const DraftSlots some = SlotsOfRun(4, 3, 0, {11, 12, 99, 55}).slots();
  EXPECT_EQ(some.chains[0].row, 2);
  EXPECT_EQ(some.chains[0].position, 102);
  EXPECT_EQ(some.next[2], 99);
  EXPECT_EQ(SlotsOfRun(4, 3, 0, {98, 12, 13, 55}).slots().chains[0].row, 0);
  const DraftSlots all = SlotsOfRun(4, 3, 0, {11, 12, 13, 55}).slots();
  EXPECT_EQ(all.chains[0].row, 3);
  EXPECT_EQ(all.next, (std::vector<TokenId>{11, 12, 13, 55}));
}

TEST(DraftSlots, TakeADraftWithoutARowForRightWhenTheOneBeforeItWas) {
  // A constraint leaves 12 alone behind 11, which so needs no row.
  SlotsOfRun forced(4, 3, 0, {11});
  forced.outputs.push_back({.token_index = 2, .sample = &forced.sample});
  forced.outputs.push_back({.token_index = 3, .sample = &forced.sample});
  forced.chosen.insert(forced.chosen.end(), {{.token = 13}, {.token = 60}});
  forced.run.outputs = forced.outputs;
  EXPECT_EQ(forced.slots().chains[0].row, 3);
}

TEST(DraftSlots, OfAChunkKnowTheTokenBehindIt) {
  SlotsOfRun chunk(3, 0, 0, {});
  chunk.run.next = 42;
  const DraftSlots slots = chunk.slots();
  EXPECT_EQ(slots.next, (std::vector<TokenId>{11, 12, 42}));
  EXPECT_TRUE(slots.chains.empty());
}

TEST(DraftSlots, DraftNothingBehindARowThatChoseNoToken) {
  EXPECT_TRUE(SlotsOfRun(2, 0, 1, {-1}).slots().chains.empty());
}

TEST(BestDraft, IsTheLikeliestTokenWithItsProbability) {
  const std::vector<float> logits{0, 0, std::log(2.0f)};
  const Draft draft = best_draft(logits, std::vector<TokenId>{5, 6, 900});
  EXPECT_EQ(draft.token, 900);
  EXPECT_FLOAT_EQ(draft.probability, 0.5f);
}

TEST(WithScratchPage, PutsItBehindThePagesOfTheRun) {
  const std::vector<PageId> pages{PageId{4}, PageId{9}};
  EXPECT_EQ(with_scratch_page({.pages = pages}, PageId{100}),
            (std::vector<PageId>{PageId{4}, PageId{9}, PageId{100}}));
}

}  // namespace
}  // namespace nibble
