#pragma once

#include "cooperative_groups.h"

namespace cooperative_groups {

// Combines the most distant lanes first, as CUDA's reduce() does.
template <int lanes, typename T, typename Op>
T reduce(Tile<lanes>, T value, const Op& op) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

}  // namespace cooperative_groups
