#include "reference/rounded_golden.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "model/batch.h"
#include "reference/forward.h"

namespace nibble::reference {
namespace {

constexpr size_t kChunk{128};  // tokens per step

void add_top(std::span<const float> logits, GoldenPrompt& answer) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + kGoldenTop, order.end(), [&](TokenId a, TokenId b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  const double most = logits[order[0]];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  for (int place = 0; place < kGoldenTop; ++place) {
    answer.top_ids.push_back(order[place]);
    answer.top_logprobs.push_back(static_cast<float>(logits[order[place]] - most - std::log(sum)));
  }
}

}  // namespace

GoldenPrompt rounded_golden(const Weights& weights, const GoldenPrompt& prompt, const Rounding& rounding,
                            ThreadPool& pool) {
  const Config& config = weights.config;
  const size_t vocab = config.vocab, num_tokens = prompt.ids.size();
  const size_t num_pages = num_tokens / kPageTokens + 1;  // pages per kind of layer
  std::vector<PageId> pages(2 * num_pages);
  for (size_t page = 0; page < pages.size(); ++page) pages[page] = PageId{static_cast<uint32_t>(page)};
  const PageTableView full{std::span(pages).first(num_pages)}, sliding{std::span(pages).last(num_pages)};
  const RopeTable rope = make_rope_table(config.rope, config.head_dim);
  KvCache kv(config, static_cast<int>(pages.size()));

  GoldenPrompt answer;
  answer.name = prompt.name;
  answer.computed_by = "the reference, rounding as the backend does";
  answer.ids = prompt.ids;
  answer.num_logit_rows = static_cast<int>(num_tokens);
  answer.logits.resize(num_tokens * vocab);
  answer.router_margin.assign(num_tokens, std::numeric_limits<float>::infinity());
  for (size_t first = 0; first < num_tokens; first += kChunk) {
    const size_t count = std::min(kChunk, num_tokens - first);
    std::vector<BatchRow> rows;
    std::vector<int> outputs;
    for (size_t row = 0; row < count; ++row) {
      rows.push_back({prompt.ids[first + row], static_cast<int>(first + row), full, sliding});
      outputs.push_back(static_cast<int>(row));
    }
    const std::span<float> logits = std::span(answer.logits).subspan(first * vocab, count * vocab);
    forward({weights,
             rope,
             rows,
             outputs,
             kv,
             {logits.data(), {std::ssize(rows), config.vocab}},
             {},
             &pool,
             rounding,
             std::span(answer.router_margin).subspan(first, count)});
    for (size_t row = 0; row < count; ++row) add_top(logits.subspan(row * vocab, vocab), answer);
  }
  return answer;
}

}  // namespace nibble::reference
