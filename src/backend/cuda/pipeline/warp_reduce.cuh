// Reductions over lanes of a warp; every lane gets the result. A float32 sum depends on the order of its
// additions, and a token's bits must not change, so each function states its order. Maxima and integer sums
// are the same in any order.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace nibble::cuda {

// Reduces over all 32 lanes, farthest lanes first: lanes i and i ^ 16, then i ^ 8, ... i ^ 1. Uses
// cooperative_groups::reduce, because CUB's WarpReduce adds adjacent lanes first and leaves the result in one
// lane.
template <typename T, typename Op>
__device__ T reduce_warp(T value, Op op) {
  namespace groups = cooperative_groups;
  return groups::reduce(groups::tiled_partition<32>(groups::this_thread_block()), value, op);
}

// Reduces over each group of `lanes` consecutive lanes, adjacent lanes first: lanes i and i ^ 1, then i ^ 2,
// ... i ^ (lanes / 2). All 32 lanes take part. This is the order of CUB's WarpReduce<T, lanes>, but in
// WarpReduce each group has its own mask, for which the compiler adds a loop over the masks of the warp
// (MATCH, 32 more instructions in attention, on the critical path).
template <int lanes, typename T, typename Op>
__device__ T reduce_neighbours(T value, Op op) {
#pragma unroll
  for (int distance = 1; distance < lanes; distance *= 2)
    value = op(value, __shfl_xor_sync(~0u, value, distance));
  return value;
}

struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

}  // namespace nibble::cuda
