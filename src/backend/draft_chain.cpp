#include "backend/draft_chain.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/draft_tree.h"
#include "core/errors/check.h"

namespace nibble {
namespace {

size_t first_of_last_level(const Drafts& drafts) {
  const auto first = std::ranges::find(drafts.parents, drafts.parents.back());
  return static_cast<size_t>(first - drafts.parents.begin());
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
  int first_row = 0;
  for (size_t n = 0; n < batch.runs.size(); ++n) {
    const Run& run = batch.runs[n];
    const auto num_tokens = static_cast<int>(run.tokens.size());
    const auto chosen = outputs.first(run.outputs.size());
    outputs = outputs.subspan(run.outputs.size());
    const std::vector<int> path = right_path(run, chosen);
    const auto first_slot = static_cast<int>(slots.next.size());
    std::vector<int> rows(static_cast<size_t>(run.drafted.parents.empty() ? num_tokens : path[0]));
    std::iota(rows.begin(), rows.end(), 0);
    if (!run.drafted.parents.empty()) rows.insert(rows.end(), path.begin(), path.end());
    for (size_t i = 0; i < rows.size(); ++i) {
      slots.rows.push_back(first_row + rows[i]);
      const auto row = static_cast<size_t>(rows[i]);
      slots.next.push_back(i + 1 < rows.size() ? run.tokens[static_cast<size_t>(rows[i + 1])]
                                               : run.next.value_or(run.tokens[row]));
    }
    first_row += num_tokens;
    const int right = path.back();
    const auto choice = std::ranges::find_if(
        run.outputs, [&](const OutputRow& output) { return output.token_index == right && output.sample; });
    if (run.next || choice == run.outputs.end()) continue;
    const TokenId token = chosen[static_cast<size_t>(choice - run.outputs.begin())].token;
    if (token < 0) continue;
    const int right_slot =
        first_slot + (run.drafted.parents.empty() ? right : static_cast<int>(rows.size()) - 1);
    slots.next[static_cast<size_t>(right_slot)] = token;
    if (run.draft_request)
      slots.chains.push_back({.run = n,
                              .row = right_slot,
                              .num_drafts = run.draft_request->num_tokens,
                              .position = run.first_position + path[0] + static_cast<int>(path.size()) - 1});
  }
  NIBBLE_CHECK(slots.chains.size() <= kMaxDraftingRuns, "{} runs request drafts", slots.chains.size());
  return slots;
}

std::vector<PageId> with_scratch_page(const PageTableView& full, PageId scratch) {
  std::vector<PageId> pages(full.pages.begin(), full.pages.end());
  pages.push_back(scratch);
  return pages;
}

std::vector<Draft> best_drafts(std::span<const float> logits, std::span<const TokenId> tokens, int topk) {
  std::vector<size_t> best(logits.size());
  std::iota(best.begin(), best.end(), size_t{0});
  const auto end = best.begin() + std::min(std::ssize(best), static_cast<ptrdiff_t>(topk));
  std::partial_sort(best.begin(), end, best.end(), [&](size_t a, size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  const float most = logits[best.front()];
  float sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  std::vector<Draft> drafts;
  for (auto i = best.begin(); i < end; ++i)
    drafts.push_back({.token = tokens[*i], .probability = std::exp(logits[*i] - most) / sum});
  return drafts;
}

void add_level(Drafts& drafts, std::span<const Draft> level) {
  const int parent = drafts.tokens.empty() ? -1 : static_cast<int>(first_of_last_level(drafts));
  for (const Draft& draft : level) {
    drafts.tokens.push_back(draft);
    drafts.parents.push_back(parent);
  }
}

Draft likeliest_of_last_level(const Drafts& drafts) { return drafts.tokens[first_of_last_level(drafts)]; }

}  // namespace nibble
