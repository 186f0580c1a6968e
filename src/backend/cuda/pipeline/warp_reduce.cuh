// Reductions over lanes of a warp; every lane gets the result. Each function states its order of additions,
// because results must have the same bits in every batch.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace nibble::cuda {

// Reduces over all 32 lanes, most distant first: lanes i and i ^ 16, then i ^ 8, ... i ^ 1. CUB's WarpReduce
// is not used, because it adds adjacent lanes first, and leaves the result in only one lane.
template <typename T, typename Op>
__device__ T reduce_warp(T value, Op op) {
  namespace groups = cooperative_groups;
  return groups::reduce(groups::tiled_partition<32>(groups::this_thread_block()), value, op);
}

// Reduces over each group of `lanes` lanes, adjacent first: lanes i and i ^ 1, then i ^ 2, ...
// i ^ (lanes / 2). All 32 lanes must call it. CUB's WarpReduce<T, lanes> is not used: it has one mask per
// group of lanes, and the compiler then adds a loop with the MATCH instruction, which puts 32 instructions on
// attention's critical path.
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
