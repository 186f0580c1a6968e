// Calls a function with a number of warps and a number of slots in each warp's ring buffer (an entry of
// kStreamWarps in stream_shape.h) as compile-time constants, to select a kernel.
#pragma once

#include <type_traits>

#include "backend/cuda/pipeline/stream_shape.h"

namespace nibble::cuda {

template <typename F>
void with_warps(StreamWarps of, const F& f) {
  const std::integral_constant<int, 2> two;
  const std::integral_constant<int, 3> three;
  const std::integral_constant<int, 8> eight;
  const std::integral_constant<int, 16> sixteen;
  of.warps == 8 ? f(eight, two) : of.slots == 2 ? f(sixteen, two) : f(sixteen, three);
}
// Like with_warps(), but calls `f` only if kernels for `layout` are compiled with these warps and slots.
template <Layout layout, typename F>
void with_warps_for(StreamWarps of, const F& f) {
  with_warps(of, [&](auto warps, auto slots) {
    if constexpr (is_for({decltype(warps)::value, decltype(slots)::value}, layout)) f(warps, slots);
  });
}

}  // namespace nibble::cuda
