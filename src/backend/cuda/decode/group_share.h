// A CTA's share of the strips of several experts' groups, which are numbered through. Needs no GPU. C++17, for device code.
#pragma once

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// A CTA that goes on from one group to the next stops there: it adds up the sums of the one, and puts the activations of the other into their
// place. That takes as long as some two strips (chip/costs.h: kNextExpert), and a launch ends with its last CTA. So shares are even where
// the step from each group to the next counts as so many strips.
inline constexpr int kCrossingStrips{2};

// The strips of so many groups, and the steps between them.
constexpr unsigned num_places(const Strips& weights, int num_groups) {
  return num_groups == 0
             ? 0
             : static_cast<unsigned>(num_groups * (weights.num_strips + kCrossingStrips) - kCrossingStrips);
}
// Returns the strip at which a share begins that begins at this place.
constexpr int first_strip_at(const Strips& weights, unsigned place) {
  const int pitch = weights.num_strips + kCrossingStrips;
  auto group =
      static_cast<int>(weights.by_strips.quotient(place));  // that one or, because of the steps, a later one
  while (group * pitch > static_cast<int>(place)) --group;
  const int strip = static_cast<int>(place) - group * pitch;
  return group * weights.num_strips + (strip < weights.num_strips ? strip : weights.num_strips);
}
// Returns the strip at which the even share of a CTA begins; it ends where the next one's begins.
constexpr int first_strip_of(const Strips& weights, int num_groups, unsigned cta) {
  return first_strip_at(weights, part_of(num_places(weights, num_groups), cta, weights.by_ctas));
}

// Shares for CTAs that begin one by one, as those of the launch before them end, and take turns in that order: the first asks for its weights some
// 3 us before the last, whose own come behind what all others have asked for. Shares become smaller by an even step from one turn to the next, so
// that a late CTA has less to do (docs/decisions/0016 tells what that gains).
class TurnShares {
 public:
  // The first share is larger by slope / kSlopeOne than the mean, the last one smaller by as much. `slope`: below kSlopeOne.
  constexpr TurnShares(unsigned num_ctas, unsigned slope)
      : slope_(slope),
        first_(num_ctas * (kSlopeOne + slope)),
        factor_((uint64_t{1} << 48) / (kSlopeOne * num_ctas * num_ctas) + 1) {}
  // Returns where the share of a turn begins, of so many things; it ends where the next one's begins.
  constexpr unsigned first(unsigned count, unsigned turn) const {
    const unsigned part = turn * (first_ - slope_ * turn);  // of kSlopeOne num_ctas^2, and then of 2^16
    return static_cast<unsigned>(count * (part * factor_ >> 32) >> 16);
  }

  static constexpr unsigned kSlopeOne{64};

 private:
  unsigned slope_, first_;
  uint64_t factor_;
};

}  // namespace nibble::cuda
