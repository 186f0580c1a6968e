// Runs a sequence with a draft head in rounds, as in the golden data: each step checks the drafts of the
// previous step and makes the next ones.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"

namespace nibble {

struct DraftRound {
  std::vector<Draft> drafts;
  // Number of right drafts; in the last round, only those within the requested number of tokens.
  int num_right{0};
};
struct DraftRounds {
  std::vector<TokenId> answer;  // greedy; may be a few tokens longer than requested
  std::vector<DraftRound> rounds;
};

// Generates at least `num_tokens` tokens after `prompt`, with `depth` drafts per step. The backend must have
// `num_pages` pages of each kind.
inline DraftRounds run_draft_rounds(Backend& backend, std::span<const TokenId> prompt, int num_tokens,
                                    int depth, int num_pages) {
  PagePool pool(num_pages);
  SequencePages pages(pool, backend.config().window);
  const SampleParams greedy;
  std::vector<TokenId> known(prompt.begin(), prompt.end());
  std::vector<Draft> drafts;
  // Runs the known tokens that are not in the cache yet, then the drafts. Returns the number of right drafts.
  const auto step = [&] {
    const int first = pages.length();
    std::vector<TokenId> tokens(known.begin() + first, known.end());
    const auto num_known = static_cast<int>(tokens.size());
    for (const Draft& draft : drafts) tokens.push_back(draft.token);
    std::vector<OutputRow> outputs;
    for (int row = num_known - 1; row < static_cast<int>(tokens.size()); ++row)
      outputs.push_back({.token_index = row, .sample = &greedy});
    EXPECT_TRUE(pages.reserve(static_cast<int>(tokens.size())));
    const Run run{.tokens = tokens,
                  .first_position = first,
                  .full = pages.full(),
                  .sliding = pages.sliding(),
                  .outputs = outputs,
                  .drafted = {.count = static_cast<int>(drafts.size())},
                  .draft_request = DraftRequest{.num_tokens = depth}};
    const StepResult result = backend.step({.runs = {&run, 1}});
    int num_right = 0;
    known.push_back(result.outputs[0].token);
    while (num_right < std::ssize(drafts) && known.back() == drafts[static_cast<size_t>(num_right)].token)
      known.push_back(result.outputs[static_cast<size_t>(++num_right)].token);
    pages.advance(num_known + num_right);
    EXPECT_EQ(result.drafts[0].first_position, static_cast<int>(known.size()));
    drafts = result.drafts[0].tokens;
    return num_right;
  };
  DraftRounds done;
  const auto end = prompt.size() + static_cast<size_t>(num_tokens);
  step();
  while (known.size() < end) {
    DraftRound& round = done.rounds.emplace_back(DraftRound{.drafts = drafts});
    const auto left = static_cast<int>(end - known.size());
    round.num_right = std::min(step(), left);
  }
  done.answer.assign(known.begin() + std::ssize(prompt), known.end());
  return done;
}

// Runs greedy rounds whose drafts are trees. After each round the head's next drafts must equal, to the bit,
// the drafts that `fresh` makes after prefilling the same text. Both backends have `num_pages` pages of each
// kind. Adds to `num_others_right` the number of right drafts that are not the first child of their parent.
inline void expect_drafts_behind_trees_as_behind_prompts(Backend& backend, Backend& fresh,
                                                         std::span<const TokenId> prompt, int num_tokens,
                                                         int depth, int topk, int num_pages,
                                                         int& num_others_right) {
  const SampleParams greedy;
  PagePool pool(num_pages);
  SequencePages pages(pool, backend.config().window);
  std::vector<TokenId> known(prompt.begin(), prompt.end());
  Drafts drafts;
  while (std::ssize(known) < std::ssize(prompt) + num_tokens) {
    const int first = pages.length();
    std::vector<TokenId> tokens(known.begin() + first, known.end());
    const auto num_known = static_cast<int>(tokens.size());
    std::vector<int> parents;
    for (int i = 0; i < num_known; ++i) parents.push_back(i - 1);
    for (const Draft& draft : drafts.tokens) tokens.push_back(draft.token);
    for (const int parent : drafts.parents) parents.push_back(num_known + parent);
    std::vector<OutputRow> outputs;
    for (int row = num_known - 1; row < static_cast<int>(tokens.size()); ++row)
      outputs.push_back({.token_index = row, .sample = &greedy});
    ASSERT_TRUE(pages.reserve(static_cast<int>(tokens.size())));
    const Run run{.tokens = tokens,
                  .first_position = first,
                  .full = pages.full(),
                  .sliding = pages.sliding(),
                  .outputs = outputs,
                  .drafted = {.count = static_cast<int>(drafts.tokens.size()),
                              .parents = drafts.tokens.empty() ? std::span<const int>{} : parents},
                  .draft_request = DraftRequest{.num_tokens = depth, .topk = topk}};
    const StepResult result = backend.step({.runs = {&run, 1}});
    known.push_back(result.outputs[0].token);
    const std::vector<int> none, &kept = result.kept.empty() ? none : result.kept[0];
    for (const int row : kept) {
      known.push_back(result.outputs[static_cast<size_t>(row - num_known + 1)].token);
      num_others_right +=
          row > 0 && parents[static_cast<size_t>(row)] == parents[static_cast<size_t>(row) - 1];
    }
    pages.advance(num_known + static_cast<int>(kept.size()));
    drafts = result.drafts[0];

    PagePool fresh_pool(num_pages);
    SequencePages fresh_pages(fresh_pool, backend.config().window);
    const std::span<const TokenId> text(known.data(), known.size() - 1);
    ASSERT_TRUE(fresh_pages.reserve(static_cast<int>(text.size())));
    const OutputRow last{.token_index = static_cast<int>(text.size()) - 1, .sample = &greedy};
    const Run prefill{.tokens = text,
                      .full = fresh_pages.full(),
                      .sliding = fresh_pages.sliding(),
                      .outputs = {&last, 1},
                      .draft_request = DraftRequest{.num_tokens = depth, .topk = topk}};
    const StepResult expected = fresh.step({.runs = {&prefill, 1}});
    ASSERT_EQ(expected.outputs[0].token, known.back());
    EXPECT_EQ(drafts.first_position, expected.drafts[0].first_position);
    EXPECT_EQ(drafts.parents, expected.drafts[0].parents);
    ASSERT_EQ(drafts.tokens.size(), static_cast<size_t>(depth * topk));
    for (size_t i = 0; i < drafts.tokens.size(); ++i) {
      EXPECT_EQ(drafts.tokens[i].token, expected.drafts[0].tokens[i].token);
      EXPECT_EQ(drafts.tokens[i].probability, expected.drafts[0].tokens[i].probability);
    }
  }
}

}  // namespace nibble
