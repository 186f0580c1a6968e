// Shared by backends with a draft head: where a run's drafts begin, and the pages of the head's cache.
//
// The head has one slot per position p. Its input is the model's features at p and the token after p, which
// the step has just sampled or the prompt contains. K and V of slot p are at position p of the pages of full
// layers, in storage of the head's own. The page ids are the model's, so the head's pages are shared, kept
// and freed with the model's. If texts share a page but differ in the token after it, the page's last slot is
// right for only one text. A wrong slot affects drafts, not answers.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"
#include "model/config.h"
#include "model/draft_head/draft_head.h"

namespace nibble {

// Describes the head as a model with one full layer, for the classes that make a KV cache.
Config draft_cache_config(const DraftHeadConfig& head);

// A chain of drafts to make after a run that requests drafts.
struct DraftChain {
  size_t run{0};
  // Index into DraftSlots::rows: the last row whose token is certain. Drafts follow the token after that row.
  int row{0};
  int num_drafts{0};
  int position{0};  // position of `row`
};

struct DraftSlots {
  // Rows of the batch whose slots are filled: all rows, except rejected drafts of trees.
  std::vector<int> rows;
  std::vector<TokenId> next;  // the token after each of `rows`
  std::vector<DraftChain> chains;
};
// Returns the slots of the head's cache that must be filled after a step, and the chains of drafts that the
// batch's runs request.
// `outputs`: tokens sampled in the batch's output rows.
DraftSlots draft_slots(const Batch& batch, std::span<const SampledToken> outputs);

// Returns a run's pages, and after them the page `scratch`, which gets the slots of a chain that reaches
// beyond the run's pages. One page is enough, because a chain is not longer than a page.
static_assert(kMaxDraftsOfHead <= kPageTokens);
std::vector<PageId> with_scratch_page(const PageTableView& full, PageId scratch);

// Returns the `topk` likeliest drafts. `tokens`: the model's token id of each logit of the head.
std::vector<Draft> best_drafts(std::span<const float> logits, std::span<const TokenId> tokens, int topk);

// Adds a level of drafts, likeliest first. Their parent is the likeliest draft of the previous level.
void add_level(Drafts& drafts, std::span<const Draft> level);
Draft likeliest_of_last_level(const Drafts& drafts);

}  // namespace nibble
