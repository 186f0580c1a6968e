#include "speculative/text_index.h"

#include <algorithm>

#include "core/errors/check.h"
#include "core/numbers/random.h"

namespace nibble::speculative {

TextIndex::TextIndex(int order) : order_(order), before_(1), latest_(256) {
  NIBBLE_CHECK(order > 0, "order {}", order);
}

size_t TextIndex::bucket(std::span<const TokenId> run) const {
  uint64_t hash = 0;
  for (const TokenId token : run) hash = mix64(hash ^ static_cast<uint64_t>(token));
  return hash & (latest_.size() - 1);
}

void TextIndex::link(int place) {
  if (place < order_) return;
  const auto run = tokens().subspan(static_cast<size_t>(place - order_), static_cast<size_t>(order_));
  int32_t& latest = latest_[bucket(run)];
  before_[static_cast<size_t>(place)] = latest;
  latest = place;
}

void TextIndex::push(TokenId token) {
  tokens_.push_back(token);
  before_.push_back(0);
  if (2 * tokens_.size() > latest_.size()) {
    latest_.assign(2 * latest_.size(), 0);
    for (int place = 1; place < static_cast<int>(tokens_.size()); ++place) link(place);
  }
  link(static_cast<int>(tokens_.size()));
}

int TextIndex::latest(std::span<const TokenId> context) const {
  if (context.size() < static_cast<size_t>(order_)) return 0;
  return latest_[bucket(context.last(static_cast<size_t>(order_)))];
}

int TextIndex::num_matched(std::span<const TokenId> context, int place, int most) const {
  const int end = std::min({most, place, static_cast<int>(context.size())});
  int num = 0;
  while (num < end && context[context.size() - 1 - static_cast<size_t>(num)] ==
                          tokens_[static_cast<size_t>(place - 1 - num)])
    ++num;
  return num;
}

}  // namespace nibble::speculative
