// The parts of a step in a profile: the operations of each part, and the time of each piece of work.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "backend/timed_work.h"

namespace nibble::cli {

inline constexpr std::array<std::string_view, 6> kPartNames{
    "dense", "experts", "attention", "norms and routing", "lm_head and sampling", "draft head"};
inline constexpr size_t kDraftPart{5};

// Both functions return an index into kPartNames.
size_t part_of(Operation operation);
size_t part_of(const TimedWork& work);

struct OwnTime {
  double idle{0};  // microseconds before this piece in which no work ran
  double busy{0};  // microseconds that the piece adds to the step, without its overlap with earlier pieces
};
// Returns the times of each piece of work. Their sum is the step's time.
std::vector<OwnTime> own_times(std::span<const TimedWork> step);

}  // namespace nibble::cli
