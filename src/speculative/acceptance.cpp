#include "speculative/acceptance.h"

#include <algorithm>

namespace nibble::speculative {

size_t Acceptance::index_of(int place) { return std::min(static_cast<size_t>(place), kNumPlaces - 1); }

void Acceptance::add(int place, bool is_right) {
  Place& counts = places_[index_of(place)];
  counts.num = counts.num * kept_ + 1;
  counts.num_right = counts.num_right * kept_ + is_right;
}

double Acceptance::chance(int place, double prior, double prior_weight) const {
  const Place& counts = places_[index_of(place)];
  return (counts.num_right + prior * prior_weight) / (counts.num + prior_weight);
}

}  // namespace nibble::speculative
