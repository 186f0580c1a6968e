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
// Returns the strip at which the share of a CTA begins; it ends where the next one's begins.
constexpr int first_strip_of(const Strips& weights, int num_groups, unsigned cta) {
  const int pitch = weights.num_strips + kCrossingStrips;
  const unsigned place = part_of(num_places(weights, num_groups), cta, weights.by_ctas);
  auto group =
      static_cast<int>(weights.by_strips.quotient(place));  // that one or, because of the steps, a later one
  while (group * pitch > static_cast<int>(place)) --group;
  const int strip = static_cast<int>(place) - group * pitch;
  return group * weights.num_strips + (strip < weights.num_strips ? strip : weights.num_strips);
}

}  // namespace nibble::cuda
