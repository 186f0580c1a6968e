#include "speculative/head.h"

#include <algorithm>

namespace nibble::speculative {

void HeadDrafter::push(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    size_t next = 0;
    while (next < drafts_.tokens.size() &&
           (parent_of(drafts_.parents, next) != last_ || drafts_.tokens[next].token != token))
      ++next;
    has_left_ |= next == drafts_.tokens.size();
    last_ = static_cast<int>(next);
  }
}

// Proposes the drafts after the last draft that the text confirmed, sorted by the probability of the path to
// each.
Proposal HeadDrafter::propose(int most) {
  if (has_left_) return {};
  std::vector<double> chances(drafts_.tokens.size(), -1);  // probability of each path; -1: not proposed
  std::vector<size_t> order;
  for (size_t i = 0; i < chances.size(); ++i) {
    const int parent = parent_of(drafts_.parents, i);
    const double before = parent == last_ ? 1 : parent < 0 ? -1 : chances[static_cast<size_t>(parent)];
    if (before < 0) continue;
    chances[i] = before * drafts_.tokens[i].probability;
    order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return chances[a] > chances[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(most)));
  Proposal proposal;
  for (const size_t i : order) {
    const int parent = parent_of(drafts_.parents, i);
    const auto at = std::ranges::find(order, static_cast<size_t>(parent));
    proposal.tokens.push_back(drafts_.tokens[i].token);
    proposal.probabilities.push_back(drafts_.tokens[i].probability);
    proposal.parents.push_back(parent == last_ ? -1 : static_cast<int>(at - order.begin()));
  }
  return proposal;
}

}  // namespace nibble::speculative
