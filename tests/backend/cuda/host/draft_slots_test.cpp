// Compares the device's computation of a step's slots (input/draft_slots.h) with draft_slots() on the host,
// on random runs. Needs no GPU.
#include "backend/cuda/input/draft_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/draft_chain.h"

namespace nibble::cuda {
namespace {

constexpr int kTokens{3};  // size of the vocabulary: small, so that many drafts are right

// A random batch, and the same batch in the layout of the device.
struct RandomStep {
  std::mt19937 random;
  SampleParams sample;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<OutputRow>> outputs;
  std::vector<std::vector<int>> parents;  // parents of a tree's drafts; empty for a chain
  std::vector<nibble::Run> runs;
  std::vector<SampledToken> chosen;
  std::vector<RowInput> rows;
  std::vector<int> row_parents;
  std::vector<int> output_rows;
  std::vector<SampleRow> sample_rows;
  std::vector<SampleResult> results;
  std::vector<DraftRun> draft_runs;

  RandomStep(unsigned seed, bool has_trees) : random(seed) {
    const int num_runs = 1 + below(4);
    for (int n = 0; n < num_runs; ++n) add_run(has_trees && below(4) > 0);
    for (int n = 0; n < num_runs; ++n) {
      const auto i = static_cast<size_t>(n);
      runs[i].tokens = tokens[i];
      runs[i].outputs = outputs[i];
      runs[i].drafted.parents = parents[i];
    }
  }
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  ChosenTokens choices() const {
    return {rows.data(), row_parents.data(), output_rows.data(), sample_rows.data(), results.data()};
  }
  void add_run(bool is_tree) {
    const int num_rows = 1 + below(is_tree ? 12 : 6), first_row = static_cast<int>(rows.size());
    std::vector<int>& parents_of_run = parents.emplace_back();
    std::vector<TokenId>& of_run = tokens.emplace_back();
    std::vector<OutputRow>& outputs_of_run = outputs.emplace_back();
    DraftRun& draft_run =
        draft_runs.emplace_back(DraftRun{first_row, num_rows, below(num_rows), OptionalIndex::none(),
                                         static_cast<int>(chosen.size()), 0, OptionalIndex::none(), is_tree});
    const int last_known = num_rows - 1 - draft_run.num_drafted;
    if (below(4) == 0) draft_run.next = OptionalIndex::of(below(kTokens));
    for (int row = 0; row < num_rows; ++row) {
      of_run.push_back(below(kTokens));
      const int parent = is_tree && row > last_known ? last_known + below(row - last_known) : row - 1;
      if (is_tree) parents_of_run.push_back(parent);
      row_parents.push_back(parent);
      rows.push_back({TokenInput::of(of_run.back()),
                      parent < 0 ? 40 : rows[static_cast<size_t>(first_row + parent)].position + 1, 0, 0});
      if (below(3) == 0) continue;
      const bool is_sampled = below(4) > 0;  // if false, only logits are requested
      const TokenId token = is_sampled && below(6) > 0 ? below(kTokens) : -1;
      outputs_of_run.push_back({.token_index = row, .sample = is_sampled ? &sample : nullptr});
      chosen.push_back({.token = token});
      output_rows.push_back(first_row + row);
      sample_rows.push_back({});
      sample_rows.back().temperature = is_sampled ? 0.0f : -1.0f;
      results.push_back({token, 0, 0, {}});
      ++draft_run.num_outputs;
    }
    runs.push_back({.first_position = 40,
                    .drafted = {.count = draft_run.num_drafted},
                    .next = draft_run.next.has_value() ? std::optional(draft_run.next.value()) : std::nullopt,
                    .draft_request = DraftRequest{.num_tokens = 1}});
  }
};

TEST(DeviceDraftSlots, AreThoseOfTheHost) {
  int num_chains = 0, num_moved = 0, num_without = 0;
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    const RandomStep step(seed, /*has_trees=*/false);
    const DraftSlots expected = draft_slots({.runs = step.runs}, step.chosen);
    const ChosenTokens choices = step.choices();
    std::vector<TokenId> next(step.rows.size());
    std::vector<int> chain_rows;
    for (const DraftRun& run : step.draft_runs) {
      const DraftStart start = draft_start(run, choices, [](int, int) {});
      for (int row = 0; row < run.num_rows; ++row)
        next[static_cast<size_t>(run.first_row + row)] =
            row == start.row ? start.token : known_token(run, choices, row);
      if (start.is_chosen) chain_rows.push_back(run.first_row + start.row);
      num_moved += start.is_chosen && start.row < run.num_rows - 1;
      num_without += !start.is_chosen;
    }
    ASSERT_EQ(next, expected.next) << seed;
    ASSERT_EQ(chain_rows.size(), expected.chains.size()) << seed;
    for (size_t n = 0; n < chain_rows.size(); ++n) ASSERT_EQ(chain_rows[n], expected.chains[n].row) << seed;
    num_chains += static_cast<int>(chain_rows.size());
  }
  EXPECT_GT(num_chains, 10'000);
  EXPECT_GT(num_moved, 1'000);
  EXPECT_GT(num_without, 1'000);
}

// Drafts with the same parent may hold the same token, so several may be right. Host and device both choose
// the first one with right children.
TEST(DeviceDraftSlots, OfTreesAreThoseOfTheHost) {
  int num_moved = 0, num_chains = 0;
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    const RandomStep step(seed, /*has_trees=*/true);
    const DraftSlots expected = draft_slots({.runs = step.runs}, step.chosen);
    const ChosenTokens choices = step.choices();
    DraftSlots found;
    for (size_t n = 0; n < step.draft_runs.size(); ++n) {
      const DraftRun& run = step.draft_runs[n];
      std::vector<int> filled, next;
      const auto fill = [&](int row, int token) {
        filled.push_back(row);
        next.push_back(token);
      };
      for (int row = 0; row < run.num_rows - (run.is_tree ? run.num_drafted : 0); ++row)
        fill(row, known_token(run, choices, row));
      const DraftStart start = draft_start(run, choices, [&](int row, int right) {
        if (!run.is_tree) return;
        ASSERT_EQ(row, filled.back());
        next.back() = choices.rows[run.first_row + right].token.id();
        fill(right, known_token(run, choices, right));
        num_moved += right != row + 1;
      });
      const auto at =
          static_cast<size_t>(std::find(filled.begin(), filled.end(), start.row) - filled.begin());
      next[at] = start.token;
      if (start.is_chosen)
        found.chains.push_back({.run = n,
                                .row = static_cast<int>(found.rows.size() + at),
                                .position = choices.rows[run.first_row + start.row].position});
      for (const int row : filled) found.rows.push_back(run.first_row + row);
      found.next.insert(found.next.end(), next.begin(), next.end());
    }
    ASSERT_EQ(found.rows, expected.rows) << seed;
    ASSERT_EQ(found.next, expected.next) << seed;
    ASSERT_EQ(found.chains.size(), expected.chains.size()) << seed;
    for (size_t n = 0; n < found.chains.size(); ++n) {
      ASSERT_EQ(found.chains[n].row, expected.chains[n].row) << seed;
      ASSERT_EQ(found.chains[n].position, expected.chains[n].position) << seed;
    }
    num_chains += static_cast<int>(found.chains.size());
  }
  EXPECT_GT(num_chains, 10'000);
  EXPECT_GT(num_moved, 1'000);
}

TEST(DeviceDraftSlots, ARunAfterAChainHasItsTokenItsDraftsAndThePositionsAfterIt) {
  const ChainStart starts[]{{40, 7}, {31, 9}, {12, -1}};
  constexpr int kChains{3}, kLevels{2};
  const int tokens[]{100, 101, 102, 103};  // the model's token for each id of the head
  const int drafted[kLevels][kChains]{{3, 1, 0}, {2, -1, 1}};
  std::vector<SampleResult> results;
  for (const auto& level : drafted)
    for (const int id : level) results.push_back({id, 0, 0, {}});
  const MadeDrafts made{starts, results.data(), tokens};
  const int expected[kChains][1 + kLevels]{{7, 103, 102}, {9, 101, 100}, {0, 100, 101}};
  for (int chain = 0; chain < kChains; ++chain) {
    for (int number = 0; number <= kLevels; ++number) {
      const RowInput row = row_of_chain(made, kChains, {TokenInput::of_draft_chain(chain), number, 5, 6});
      EXPECT_EQ(row.token.source(), TokenSource::kKnown);
      EXPECT_EQ(row.token.id(), expected[chain][number]);
      EXPECT_EQ(row.position, starts[chain].position + 1 + number);
      EXPECT_EQ(row.full_pages, 5u);
      EXPECT_EQ(row.sliding_pages, 6u);
    }
  }
}

}  // namespace
}  // namespace nibble::cuda
