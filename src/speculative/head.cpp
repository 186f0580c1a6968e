#include "speculative/head.h"

#include <algorithm>

namespace nibble::speculative {

void HeadDrafter::push(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    const bool is_right = !drafts_.empty() && drafts_.front().token == token;
    drafts_.erase(drafts_.begin(), is_right ? drafts_.begin() + 1 : drafts_.end());
  }
}

Proposal HeadDrafter::propose(int most) {
  Proposal proposal;
  for (const Draft& draft : std::span(drafts_).first(std::min(drafts_.size(), static_cast<size_t>(most)))) {
    proposal.tokens.push_back(draft.token);
    proposal.probabilities.push_back(draft.probability);
  }
  return proposal;
}

}  // namespace nibble::speculative
