// A CTA's share of the strips of several groups, which are numbered consecutively. Needs no GPU. C++17, for
// device code.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// A CTA that crosses from one group to the next pauses: it adds up the sums of the first group, and moves the
// activations of the second into place. That takes about as long as two strips (chip/costs.h: kNextExpert),
// and a launch ends with its last CTA. So shares are even if each crossing counts as kCrossingStrips strips.
inline constexpr int kCrossingStrips{2};

// Returns the number of places: the strips of all groups, and the crossings between them.
constexpr unsigned num_places(const Strips& weights, int num_groups) {
  return num_groups == 0
             ? 0
             : static_cast<unsigned>(num_groups * (weights.num_strips + kCrossingStrips) - kCrossingStrips);
}
// Returns the first strip of a share that begins at `place`.
constexpr int first_strip_at(const Strips& weights, unsigned place) {
  const int pitch = weights.num_strips + kCrossingStrips;
  // `group` is the place's group or, because crossings take places too, a later group.
  auto group = static_cast<int>(weights.by_strips.quotient(place));
  while (group * pitch > static_cast<int>(place)) --group;
  const int strip = static_cast<int>(place) - group * pitch;
  return group * weights.num_strips + (strip < weights.num_strips ? strip : weights.num_strips);
}
// Returns the first strip of a CTA's even share, which ends where the next CTA's share begins.
constexpr int first_strip_of(const Strips& weights, int num_groups, unsigned cta) {
  return first_strip_at(weights, part_of(num_places(weights, num_groups), cta, weights.by_ctas));
}

// Shares for CTAs that start one by one, as CTAs of the previous launch end, and are numbered (turns) in that
// order. The first CTA requests its weights about 3 us before the last CTA, whose requests queue after those
// of all others. Shares shrink evenly from turn to turn, so that a late CTA has less to do
// (docs/decisions/0016 has the gain).
class TurnShares {
 public:
  // The first share is larger than the mean share by slope / kSlopeOne of the mean, and the last share is
  // smaller by the same. `slope` is below kSlopeOne.
  constexpr TurnShares(unsigned num_ctas, unsigned slope)
      : slope_(slope),
        first_(num_ctas * (kSlopeOne + slope)),
        factor_((uint64_t{1} << 48) / (kSlopeOne * num_ctas * num_ctas) + 1) {}
  // Returns where the share of a turn begins, among `count` items; it ends where the next turn's share
  // begins.
  constexpr unsigned first(unsigned count, unsigned turn) const {
    const unsigned part = turn * (first_ - slope_ * turn);  // out of kSlopeOne num_ctas^2; below, out of 2^16
    return static_cast<unsigned>(count * (part * factor_ >> 32) >> 16);
  }

  static constexpr unsigned kSlopeOne{64};

 private:
  unsigned slope_, first_;
  uint64_t factor_;
};

}  // namespace nibble::cuda
