// Divides the strips of several groups among CTAs. This header has no device code, so that tests without a
// GPU can include it. CUDA code includes it too, so it must compile as C++17.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// A crossing is the change of a CTA from one group to the next. It takes about as long as two strips (1.8 us
// on Hopper), in which the CTA adds up the sums of the first group and loads the activations of the second.
// So shares take equal time if each crossing counts as kCrossingStrips strips.
inline constexpr int kCrossingStrips{2};

// Returns the number of places of `num_groups` groups. Shares are counted in places: a strip is one place, a
// crossing is kCrossingStrips places.
constexpr unsigned num_places(const Strips& weights, int num_groups) {
  return num_groups == 0
             ? 0
             : static_cast<unsigned>(num_groups * (weights.num_strips + kCrossingStrips) - kCrossingStrips);
}
// Returns the first strip, counted over all groups, of the share that begins at `place`.
constexpr int first_strip_at(const Strips& weights, unsigned place) {
  const int pitch = weights.num_strips + kCrossingStrips;
  // The division ignores the places of crossings, so the quotient may be too large. The loop corrects it.
  auto group = static_cast<int>(weights.by_strips.quotient(place));
  while (group * pitch > static_cast<int>(place)) --group;
  const int strip = static_cast<int>(place) - group * pitch;
  return group * weights.num_strips + (strip < weights.num_strips ? strip : weights.num_strips);
}
// Returns the first strip of a CTA's share, if all shares have the same number of places (num_places()). The
// share ends where that of the next CTA begins.
constexpr int first_strip_of(const Strips& weights, int num_groups, unsigned cta) {
  return first_strip_at(weights, part_of(num_places(weights, num_groups), cta, weights.by_ctas));
}

// Shares for CTAs that start one by one, as CTAs of the previous launch end. A turn is a CTA's number in the
// order of starts. The first CTA requests weights about 3 us earlier than the last CTA, whose requests then
// queue after all others. So the share of each turn is smaller than that of the turn before, each time by the
// same amount (gain: docs/decisions/0016).
class TurnShares {
 public:
  // `slope`: makes the first turn's share 1 + slope / kSlopeOne times the mean share, and the last turn's 1 -
  // slope / kSlopeOne times. `slope` must be below kSlopeOne.
  constexpr TurnShares(unsigned num_ctas, unsigned slope)
      : slope_(slope),
        first_(num_ctas * (kSlopeOne + slope)),
        factor_((uint64_t{1} << 48) / (kSlopeOne * num_ctas * num_ctas) + 1) {}
  // Returns the first place (num_places()) or strip of a turn's share, if all turns share `count` places or
  // strips. The share ends where that of the next turn begins.
  constexpr unsigned first(unsigned count, unsigned turn) const {
    const unsigned part = turn * (first_ - slope_ * turn);  // in units of count / (kSlopeOne * num_ctas^2)
    return static_cast<unsigned>(count * (part * factor_ >> 32) >> 16);
  }

  static constexpr unsigned kSlopeOne{64};

 private:
  unsigned slope_, first_;
  uint64_t factor_;
};

}  // namespace nibble::cuda
