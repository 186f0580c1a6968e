// Tests the positions of the tokens in a tree of drafts, and which drafts are right.
#include "backend/draft_tree.h"

#include <gtest/gtest.h>

#include <utility>

namespace nibble {
namespace {

// Tokens 10 and 11 are known. Drafts 20 and 21 follow 11, 30 follows 20, 31 and 32 follow 21, 40 follows 32.
const std::vector<TokenId> kTreeTokens{10, 11, 20, 21, 30, 31, 32, 40};
const std::vector<int> kTreeParents{-1, 0, 1, 1, 2, 3, 3, 6};

struct TreeStep {
  std::vector<OutputRow> outputs;
  std::vector<SampledToken> chosen;
  SampleParams sample;
  Run run;

  // `choices`: (row, the token that this row chooses).
  explicit TreeStep(const std::vector<std::pair<int, TokenId>>& choices) {
    for (const auto& [row, token] : choices) {
      outputs.push_back({.token_index = row, .sample = &sample});
      chosen.push_back({.token = token});
    }
    run = {.tokens = kTreeTokens,
           .first_position = 100,
           .outputs = outputs,
           .drafted = {.count = 6, .parents = kTreeParents}};
  }
  std::vector<int> path() const { return right_path(run, chosen); }
};

TEST(DraftTree, PlacesEachTokenAfterItsParent) {
  const std::vector<PlaceInRun> places = places_of(TreeStep({}).run);
  std::vector<int> positions;
  for (const PlaceInRun& place : places) positions.push_back(place.position);
  EXPECT_EQ(positions, (std::vector<int>{100, 101, 102, 102, 103, 103, 103, 104}));
  EXPECT_TRUE(places[2].path.empty()) << "where a chain would have it";
  EXPECT_EQ(places[4].path, (std::vector<int>{104}));
  EXPECT_EQ(places[7].path, (std::vector<int>{103, 106, 107}));
  const auto seen = [&](int position) { return slot_of(position, places[7].position, places[7].path); };
  EXPECT_EQ(seen(5), 5);
  EXPECT_EQ(seen(101), 101);
  EXPECT_EQ(seen(102), 103);
  EXPECT_EQ(seen(103), 106);
  EXPECT_EQ(seen(104), 107);
  EXPECT_EQ(slot_of(130, 104, {}), 130) << "behind a row without a path";
}

TEST(DraftTree, WithoutBranchesHasEachTokenAtItsPosition) {
  nibble::Run chain = TreeStep({}).run;
  chain.drafted.parents = {};
  for (const PlaceInRun& place : places_of(chain)) EXPECT_TRUE(place.path.empty());
}

TEST(DraftTree, ADraftIsRightWhereItsParentIsAndChoseIt) {
  EXPECT_EQ(TreeStep({{1, 21}, {3, 32}, {6, 40}, {7, 9}}).path(), (std::vector<int>{1, 3, 6, 7}));
  EXPECT_EQ(TreeStep({{1, 21}, {3, 31}, {5, 40}, {6, 40}}).path(), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(TreeStep({{1, 20}, {2, 31}, {3, 31}}).path(), (std::vector<int>{1, 2}));
  EXPECT_EQ(TreeStep({{1, 99}, {3, 31}}).path(), (std::vector<int>{1}));
  EXPECT_EQ(TreeStep({{1, 21}, {3, 32}}).path(), (std::vector<int>{1, 3, 6, 7}))
      << "40 needs no row before it";
}

TEST(DraftTree, MovesTheRightDraftsAfterTheKnownTokens) {
  const TreeStep step({{1, 21}, {3, 32}, {6, 40}, {7, 9}});
  std::vector<std::pair<int, int>> moves;
  const auto kept =
      keep_right_drafts({.runs = {&step.run, 1}}, step.chosen,
                        [&](const nibble::Run&, int from, int to) { moves.emplace_back(from, to); });
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0], (std::vector<int>{3, 6, 7}));
  EXPECT_EQ(moves, (std::vector<std::pair<int, int>>{{103, 102}, {106, 103}, {107, 104}}));
}

}  // namespace
}  // namespace nibble
