// Tests after which row a draft head starts its drafts, given the tokens chosen by the rows of a step.
#include "backend/draft_chain.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nibble {
namespace {

// One run with the tokens 10, 11, 12 and so on. Its output rows choose the tokens `choices`; the first output
// row is row `first_output`.
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
           .drafted = {.count = num_drafted},
           .draft_request = DraftRequest{.num_tokens = 3}};
  }
  DraftSlots slots() { return draft_slots({.runs = {&run, 1}}, chosen); }
};

TEST(DraftSlots, FollowTheTokenAfterThePrompt) {
  const DraftSlots slots = SlotsOfRun(4, 0, 3, {77}).slots();
  EXPECT_EQ(slots.next, (std::vector<TokenId>{11, 12, 13, 77}));
  ASSERT_EQ(slots.chains.size(), 1u);
  EXPECT_EQ(slots.chains[0].row, 3);
  EXPECT_EQ(slots.chains[0].position, 103);
  EXPECT_EQ(slots.chains[0].num_drafts, 3);
}

TEST(DraftSlots, FollowTheLastRightDraft) {
  // Token 10 is known. 11, 12 and 13 are drafts, and the first two of them are right.
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
  // A constraint allows only 12 after 11, so the draft 11 needs no output row.
  SlotsOfRun forced(4, 3, 0, {11});
  forced.outputs.push_back({.token_index = 2, .sample = &forced.sample});
  forced.outputs.push_back({.token_index = 3, .sample = &forced.sample});
  forced.chosen.insert(forced.chosen.end(), {{.token = 13}, {.token = 60}});
  forced.run.outputs = forced.outputs;
  EXPECT_EQ(forced.slots().chains[0].row, 3);
}

TEST(DraftSlots, OfAChunkKnowTheTokenAfterIt) {
  SlotsOfRun chunk(3, 0, 0, {});
  chunk.run.next = 42;
  const DraftSlots slots = chunk.slots();
  EXPECT_EQ(slots.next, (std::vector<TokenId>{11, 12, 42}));
  EXPECT_TRUE(slots.chains.empty());
}

TEST(DraftSlots, DraftNothingAfterARowThatChoseNoToken) {
  EXPECT_TRUE(SlotsOfRun(2, 0, 1, {-1}).slots().chains.empty());
}

// Token 10 is known. Drafts 20 and 21 follow it, 30 and 31 follow 21, 40 follows 31.
struct SlotsOfTree : SlotsOfRun {
  std::vector<int> parents{-1, 0, 0, 2, 2, 4};
  explicit SlotsOfTree(const std::vector<TokenId>& choices) : SlotsOfRun(6, 5, 0, choices) {
    tokens = {10, 20, 21, 30, 31, 40};
    run.drafted.parents = parents;
  }
};

TEST(DraftSlots, OfATreeAreThoseOfItsRightDrafts) {
  const DraftSlots all = SlotsOfTree({21, 0, 31, 0, 40, 50}).slots();
  EXPECT_EQ(all.rows, (std::vector<int>{0, 2, 4, 5}));
  EXPECT_EQ(all.next, (std::vector<TokenId>{21, 31, 40, 50}));
  ASSERT_EQ(all.chains.size(), 1u);
  EXPECT_EQ(all.chains[0].row, 3);
  EXPECT_EQ(all.chains[0].position, 103);
  const DraftSlots none = SlotsOfTree({99, 30, 30, 0, 40, 50}).slots();
  EXPECT_EQ(none.rows, (std::vector<int>{0}));
  EXPECT_EQ(none.next, (std::vector<TokenId>{99}));
  EXPECT_EQ(none.chains[0].position, 100);
  SlotsOfTree tree({21, 0, 30, 77, 40, 50});
  SlotsOfRun before(3, 0, 2, {13});  // an earlier run of the same batch
  const std::vector<nibble::Run> runs{before.run, tree.run};
  std::vector<SampledToken> chosen = before.chosen;
  chosen.insert(chosen.end(), tree.chosen.begin(), tree.chosen.end());
  const DraftSlots second = draft_slots({.runs = runs}, chosen);
  EXPECT_EQ(second.rows, (std::vector<int>{0, 1, 2, 3, 5, 6}));
  EXPECT_EQ(second.next, (std::vector<TokenId>{11, 12, 13, 21, 30, 77}));
  EXPECT_EQ(second.chains[1].row, 5);
  EXPECT_EQ(second.chains[1].position, 102);
}

TEST(BestDrafts, AreTheLikeliestTokensWithTheirProbabilities) {
  const std::vector<float> logits{0, 0, std::log(2.0f)};
  const std::vector<TokenId> tokens{5, 6, 900};
  const std::vector<Draft> best = best_drafts(logits, tokens, 2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].token, 900);
  EXPECT_FLOAT_EQ(best[0].probability, 0.5f);
  EXPECT_EQ(best[1].token, 5);
  EXPECT_FLOAT_EQ(best[1].probability, 0.25f);
  EXPECT_EQ(best_drafts(logits, tokens, 9).size(), 3u);
}

TEST(AddLevel, PutsEachAfterTheLikeliestOfThePreviousLevel) {
  Drafts drafts;
  for (const TokenId first : {10, 20, 30})
    add_level(drafts, std::vector<Draft>{{.token = first}, {.token = first + 1}});
  EXPECT_EQ(drafts.parents, (std::vector<int>{-1, -1, 0, 0, 2, 2}));
  EXPECT_EQ(likeliest_of_last_level(drafts).token, 30);
}

TEST(WithScratchPage, PutsItAfterThePagesOfTheRun) {
  const std::vector<PageId> pages{PageId{4}, PageId{9}};
  EXPECT_EQ(with_scratch_page({.pages = pages}, PageId{100}),
            (std::vector<PageId>{PageId{4}, PageId{9}, PageId{100}}));
}

}  // namespace
}  // namespace nibble
