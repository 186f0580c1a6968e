// Backends with a draft head share these steps: they find where the drafts of a run begin, and the pages of the head's keys and values.
//
// The head has one slot for a position: the model's features there and the token behind it, which the step has just chosen or the prompt
// has. Keys and values of slot p lie at position p of the pages that the full layers have, in storage of the head's own: so they are
// shared, kept and given back with the model's. A page that two texts share, which differ right behind it, has in its last slot the token
// of the one that filled it. That is one key of many, and of a guess: no answer depends on it.
#pragma once

#include <span>
#include <vector>

#include "model/batch.h"
#include "model/config.h"
#include "model/draft_head/draft_head.h"

namespace nibble {

// Describes the head to the classes that make a KV cache: as a model of one full layer.
Config draft_cache_config(const DraftHeadConfig& head);

// A run that asks for drafts.
struct DraftChain {
  size_t run{0};
  int row{
      0};  // of DraftSlots: the last whose token is known to be right; the drafts follow the token behind it
  int num_drafts{0};
  int position{0};  // of that row
};

struct DraftSlots {
  std::vector<int> rows;  // of the batch, whose slots are filled: all, but of a tree's drafts the right ones
  std::vector<TokenId> next;  // the token behind each of these
  std::vector<DraftChain> chains;
};
// `outputs`: what the output rows of the batch chose.
DraftSlots draft_slots(const Batch& batch, std::span<const SampledToken> outputs);

// The pages of a run with one more behind them, for the slots of a chain that leave them: a chain is shorter than a page.
static_assert(kMaxDraftsOfHead <= kPageTokens);
std::vector<PageId> with_scratch_page(const PageTableView& full, PageId scratch);

// The likeliest `topk` of a head's logits, as the model's tokens.
std::vector<Draft> best_drafts(std::span<const float> logits, std::span<const TokenId> tokens, int topk);

// Adds the drafts for one more place, likeliest first, behind the likeliest of the place before it.
void add_level(Drafts& drafts, std::span<const Draft> level);
// The likeliest draft for the last place.
Draft likeliest_of_last_level(const Drafts& drafts);

}  // namespace nibble
