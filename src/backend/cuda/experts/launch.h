// Chooses the grid, warps and kernel of the experts' launches for few tokens. This header has no device code,
// so that tests without a GPU can include it. CUDA code includes it too, so it must compile as C++17.
#pragma once

#include <vector_types.h>

#include <algorithm>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/experts/group_share.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/pipeline/stream_shape.h"

namespace nibble::cuda {

// Returns the grid for a single token: one row of CTAs for each of the token's chosen experts (the token's
// slots). The SMs are divided evenly among the rows.
inline dim3 grid_for_slots(const Target& target, const Strips& weights, int num_slots) {
  const int share = std::max(1, target.num_multiprocessors / num_slots);
  return {static_cast<unsigned>(std::min(share, weights.num_strips)), static_cast<unsigned>(num_slots), 1};
}
// Returns the grid for groups of pairs (of a token and an expert). Its CTAs share the strips of all groups.
inline dim3 grid_for_groups(const Target& target, const Strips& weights, int max_groups) {
  return {static_cast<unsigned>(std::min(target.num_multiprocessors, max_groups * weights.num_strips)), 1, 1};
}
// Returns the largest number of units (segments of strips) that a CTA multiplies for one expert, if all CTAs
// of the grid share `num_strips` strips evenly.
inline int units_of_cta(const dim3& grid, const Strips& weights, unsigned num_strips) {
  const auto strips = static_cast<int>(num_strips / (grid.x * grid.y)) + 1;
  return std::min(strips, weights.num_strips) * weights.num_segments;
}
inline unsigned strips_of_slots(const Strips& weights, int num_slots) {
  return static_cast<unsigned>(num_slots * weights.num_strips);
}

struct ExpertsUpLaunch {
  dim3 grid{};
  StreamShape stream{};
};
inline ExpertsUpLaunch experts_up_launch(const Target& target, const Strips& weights, int hidden, int columns,
                                         int max_groups) {
  const dim3 grid = grid_for_groups(target, weights, max_groups);
  return {grid, stream_shape(target.budget, weights, hidden, columns,
                             units_of_cta(grid, weights, num_places(weights, max_groups)))};
}
// Returns the launch for one token, in which each of the token's experts has its own CTAs.
inline ExpertsUpLaunch experts_up_launch_of_one(const Target& target, const Strips& weights, int hidden,
                                                int experts_per_token) {
  const dim3 grid = grid_for_slots(target, weights, experts_per_token);
  return {grid, stream_shape(target.budget, weights, hidden, 1,
                             units_of_cta(grid, weights, strips_of_slots(weights, experts_per_token)))};
}

struct ExpertsDownLaunch {
  bool is_single{false};  // whether the step has one token; if so, each of its experts has its own CTAs
  bool has_all{true};     // whether this rank holds all experts; read only for one token
  // Whether shared memory holds the activations of two groups (GroupRows). Only with several tokens whose
  // routing arrives in a mailbox.
  bool has_two{false};
  // How unequal the CTAs' shares are: (first CTA's strips - mean) / mean, times TurnShares::kSlopeOne.
  unsigned slope{0};
  dim3 grid{};
  StreamShape stream{};

  TurnShares shares() const { return TurnShares(grid.x, slope); }
};

// Returns the slope of TurnShares for launches with `mean` strips per CTA. On Hopper, the first CTA gets 1.4
// strips more than `mean` (but at most 25 % more), and the last CTA 1.4 fewer (measured on an H100). Unequal
// shares gained nothing in steps of more than kOwnNorms tokens, and were not measured on other chips.
inline unsigned slope_of(const Target& target, int num_tokens, double mean) {
  constexpr double kStrips{1.4}, kMost{0.25};
  if (target.family != Family::kSm90 || num_tokens > kOwnNorms) return 0;
  return static_cast<unsigned>(TurnShares::kSlopeOne * std::min(kStrips / mean, kMost));
}

// The work of a launch of experts_down(). `has_mailbox`: whether the routing arrives in a mailbox; if false,
// it is in memory as groups.
struct ExpertsDownWork {
  int num_tokens, group_size, max_groups;
  bool has_mailbox, has_all_experts;
};
inline ExpertsDownLaunch experts_down_launch(const Target& target, const Strips& weights, int intermediate,
                                             const ExpertsDownWork& work) {
  ExpertsDownLaunch launch;
  launch.is_single = work.num_tokens == 1;
  launch.has_all = work.has_all_experts;
  launch.grid = launch.is_single ? grid_for_slots(target, weights, work.max_groups)
                                 : grid_for_groups(target, weights, work.max_groups);
  const int columns = launch.is_single ? 1 : std::min(work.group_size, work.num_tokens);
  const unsigned strips =
      launch.is_single ? strips_of_slots(weights, work.max_groups) : num_places(weights, work.max_groups);
  launch.slope =
      slope_of(target, work.num_tokens, static_cast<double>(strips) / (launch.grid.x * launch.grid.y));
  const unsigned in_first = strips + strips * launch.slope / TurnShares::kSlopeOne;
  const auto shape_for = [&](int buffers) {
    return stream_shape(target.budget, weights, intermediate, columns,
                        units_of_cta(launch.grid, weights, in_first), buffers);
  };
  const StreamShape one = shape_for(1), two = shape_for(2);
  launch.has_two =
      !launch.is_single && work.has_mailbox && two.columns == columns && two.of.warps == one.of.warps;
  launch.stream = launch.has_two ? two : one;
  return launch;
}

}  // namespace nibble::cuda
