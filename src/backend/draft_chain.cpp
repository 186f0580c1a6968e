#include "backend/draft_chain.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace nibble {
namespace {

// Lists, by row of a run, the token that the row chose; null where it chose none.
std::vector<const SampledToken*> choices(const Run& run, std::span<const SampledToken> outputs) {
  std::vector<const SampledToken*> chosen(run.tokens.size());
  for (size_t i = 0; i < run.outputs.size(); ++i)
    if (run.outputs[i].sample) chosen[static_cast<size_t>(run.outputs[i].token_index)] = &outputs[i];
  return chosen;
}

}  // namespace

Config draft_cache_config(const DraftHeadConfig& head) {
  Config config;
  config.num_layers = 1;
  config.num_kv_heads = head.num_kv_heads;
  config.head_dim = head.head_dim;
  config.layer_kinds = {LayerKind::kFull};
  return config;
}

DraftSlots draft_slots(const Batch& batch, std::span<const SampledToken> outputs) {
  DraftSlots slots;
  for (size_t n = 0; n < batch.runs.size(); ++n) {
    const Run& run = batch.runs[n];
    const auto first_row = static_cast<int>(slots.next.size());
    const std::vector<const SampledToken*> chosen = choices(run, outputs.first(run.outputs.size()));
    outputs = outputs.subspan(run.outputs.size());
    const auto last = run.tokens.size() - 1;
    // A draft is right if the row before it chose it, or needs no row because nothing else could follow.
    size_t right = last - static_cast<size_t>(run.num_drafted);
    while (right < last && (!chosen[right] || chosen[right]->token == run.tokens[right + 1])) ++right;
    for (size_t row = 0; row <= last; ++row)
      slots.next.push_back(row < last ? run.tokens[row + 1] : run.next >= 0 ? run.next : run.tokens[row]);
    const SampledToken* choice = run.next >= 0 ? nullptr : chosen[right];
    if (!choice || choice->token < 0) continue;
    slots.next[static_cast<size_t>(first_row) + right] = choice->token;
    if (run.num_to_draft > 0)
      slots.chains.push_back({.run = n,
                              .row = first_row + static_cast<int>(right),
                              .num_drafts = run.num_to_draft,
                              .position = run.first_position + static_cast<int>(right)});
  }
  NIBBLE_CHECK(slots.chains.size() <= kMaxDraftingRuns, "{} runs ask for drafts", slots.chains.size());
  return slots;
}

std::vector<PageId> with_scratch_page(const PageTableView& full, PageId scratch) {
  std::vector<PageId> pages(full.pages.begin(), full.pages.end());
  pages.push_back(scratch);
  return pages;
}

Draft best_draft(std::span<const float> logits, std::span<const TokenId> tokens) {
  const auto best = std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (const float logit : logits) sum += std::exp(logit - *best);
  return {.token = tokens[static_cast<size_t>(best - logits.begin())], .probability = 1 / sum};
}

}  // namespace nibble
