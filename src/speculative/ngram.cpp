#include "speculative/ngram.h"

namespace nibble::speculative {
namespace {

constexpr int kNgramPlaces{16};  // maximum number of earlier occurrences compared per proposal

}  // namespace

Proposal NgramDrafter::propose(int most) {
  const std::span<const TokenId> text = index_.tokens();
  int best = 0;
  Proposal proposal;
  // The latest occurrence is the end of the text itself: search from the occurrence before.
  int place = text.empty() ? 0 : index_.before(static_cast<int>(text.size()));
  for (int n = 0; place > 0 && n < kNgramPlaces && proposal.num_matched < lengths_.most; ++n) {
    const int num_matched = index_.num_matched(text, place, lengths_.most);
    if (num_matched >= lengths_.least && num_matched > proposal.num_matched) {
      proposal.num_matched = num_matched;
      best = place;
    }
    place = index_.before(place);
  }
  if (best == 0) return {};
  // If fewer than `most` tokens follow the match, repeats them: the text may be repetitive.
  const size_t period = text.size() - static_cast<size_t>(best);
  for (size_t i = 0; i < static_cast<size_t>(most); ++i)
    proposal.tokens.push_back(text[static_cast<size_t>(best) + i % period]);
  return proposal;
}

}  // namespace nibble::speculative
