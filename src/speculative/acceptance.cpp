#include "speculative/acceptance.h"

#include <algorithm>

namespace nibble::speculative {

size_t Acceptance::index_of(int place) { return std::min(static_cast<size_t>(place), kNumPlaces - 1); }

void Acceptance::add(int place, bool is_right) {
  Tally& tally = tallies_[index_of(place)];
  tally.num = tally.num * kept_ + 1;
  tally.num_right = tally.num_right * kept_ + is_right;
}

double Acceptance::chance(int place, double prior, double prior_weight) const {
  const Tally& tally = tallies_[index_of(place)];
  return (tally.num_right + prior * prior_weight) / (tally.num + prior_weight);
}

}  // namespace nibble::speculative
