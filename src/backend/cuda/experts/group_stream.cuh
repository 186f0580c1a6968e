// Streams the weights of groups of pairs in the experts' kernels for few tokens, and computes results from
// sums. A CTA has a share of the strips of all groups (group_share.h), for example the end of one group and
// the start of the next. In steps of a single token, each chosen expert (slot) has its own CTAs instead.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backend/cuda/experts/args.h"
#include "backend/cuda/experts/group_share.h"
#include "backend/cuda/experts/group_table.cuh"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/experts/swiglu.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/inputs.cuh"
#include "backend/cuda/pipeline/stream.cuh"
#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

// Returns this CTA's share of num_strips strips, as a range of units (segments of strips). The strips are
// divided evenly among `num_rows` rows of CTAs (blockIdx.y); `row`: the index of this CTA's row among them.
__device__ inline UnitRange share_of_strips(const Strips& weights, int num_strips, unsigned row = 0,
                                            unsigned num_rows = 1) {
  const auto first = [&](unsigned cta) {
    return static_cast<int>(weights.by_ctas.quotient(static_cast<unsigned>(num_strips) * cta / num_rows)) *
           weights.num_segments;
  };
  const unsigned cta = row * gridDim.x + blockIdx.x;
  return {first(cta), first(cta + 1)};
}

// The work of one row of CTAs (blockIdx.y) for a single token: a slot (one of the token's chosen experts),
// or a part of a slot. CTA rows of experts that other ranks hold help this rank's experts: with two of four
// chosen experts on this rank, each of the two gets two rows; with three, the fourth row does nothing.
struct SlotWork {
  int slot, expert;        // index among the token's chosen experts; index among this rank's experts
  unsigned row, num_rows;  // index of this row among the slot's rows; number of these rows (0: no work)
};
// Returns the work of this CTA's row (blockIdx.y). `expert`: in lane n, the token's chosen expert number n. A
// whole warp must call it.
__device__ inline SlotWork work_of_slots(const IndexRange& own, int expert) {
  unsigned here = __ballot_sync(~0u, threadIdx.x % 32 < gridDim.y && own.has(expert));
  const unsigned count = __popc(here), num_rows = count > 0 ? gridDim.y / count : 0;
  if (blockIdx.y >= count * num_rows) return {0, 0, 0, 0};
  for (unsigned before = blockIdx.y % count; before > 0; --before) here &= here - 1;
  const int slot = __ffs(static_cast<int>(here)) - 1;
  return {slot, __shfl_sync(~0u, expert, slot) - own.first, blockIdx.y / count, num_rows};
}
// Returns this CTA's share of the strips of all groups, as a range of units (segments of strips).
__device__ inline UnitRange share_of_groups(const Strips& weights, int num_groups) {
  const auto first = [&](unsigned cta) {
    return first_strip_of(weights, num_groups, cta) * weights.num_segments;
  };
  return {first(blockIdx.x), first(blockIdx.x + 1)};
}

// The part of a CTA's share that belongs to one group: units (segments of strips) [first, last), counted over
// all groups.
struct GroupUnits {
  int group, first_strip, first, last;  // first_strip: number of strips of all earlier groups
};
__device__ inline GroupUnits units_of_slot(const UnitRange& share) { return {0, 0, share.first, share.last}; }
__device__ inline GroupUnits units_from(const Strips& weights, const UnitRange& share, int from) {
  const int units = weights.num_strips * weights.num_segments;
  const auto group =
      static_cast<int>(weights.by_strips.quotient(weights.by_segments.quotient(static_cast<unsigned>(from))));
  return {group, group * weights.num_strips, from, min(share.last, (group + 1) * units)};
}

inline constexpr int kExpertSlots{2};  // number of loads that a warp's ring holds
static_assert(is_for({16, kExpertSlots}, Layout::kMxfp4));

// Gives UnitStream the weights of each group's expert.
struct GroupMatrices {
  static constexpr bool kMayEnd{false};
  const Strips& weights;
  const GroupTable& table;
  __device__ const uint8_t* operator()(int group) const {
    return weights.data + table.expert(group) * weights.matrix_bytes();
  }
};
template <int warps, typename Matrices>
using ExpertStream = UnitStream<Layout::kMxfp4, warps, kExpertSlots, Matrices>;

// Returns the columns of a pass over a group. Shared memory must hold one row of activations for each token
// of the step.
__device__ inline Columns columns_of(const Group& group, int experts_per_token,
                                     const __nv_bfloat16* activations, int stride) {
  return {activations, stride, group.count, group.pair(Columns::of_lane(group.count)) / experts_per_token};
}

// Computes results from the sums of units: adds up the segments of each strip, and calls take() for kRows
// values per strip and column. take(strip, row, column, prepared, sum) computes and stores a value.
// `prepared` is the result of prepare(strip, row), which loads the value's biases. sum(r) returns the sum of
// row r of the strip.
template <int kRows, int warps, typename Prepare, typename Take>
class Epilogue {
 public:
  // Prefetches the biases of the first values. Construct the epilogue before weights are requested: otherwise
  // these loads would queue after the weights.
  __device__ Epilogue(const Strips& weights, const GroupUnits& units, int count, const Prepare& prepare,
                      const Take& take)
      : weights_(weights), units_(units), count_(count), prepare_(prepare), take_(take) {
    prepare_first(units.first, units.last);
  }
  template <typename Stream>
  __device__ void run(Stream& stream, const Columns& columns, const CtaMemory& shared) {
    const int capacity = shared.num_partials / (kStripRows * count_), segments = weights_.num_segments;
    for (int from = units_.first; from < units_.last;) {
      const int end = batch_end(from, units_.last, segments, capacity);
      if (from != units_.first) prepare_first(from, end);
      stream.run(end, columns, shared.partials, from);
      __syncthreads();
      const BatchSums sums{shared.partials, from, end, segments, count_};
      for (int i = static_cast<int>(threadIdx.x); i < num_values(from, end); i += 32 * warps) {
        const int column = i - divide(i, count_) * count_, row = row_of(i), strip = strip_of(i, from);
        const int of_expert = strip - units_.first_strip;
        take_(of_expert, row, column, i == static_cast<int>(threadIdx.x) ? first_ : prepare_(of_expert, row),
              [&](int strip_row) { return sums.sum_segments(strip, strip_row, column); });
      }
      __syncthreads();
      from = end;
    }
  }

 private:
  __device__ int num_values(int from, int end) const {
    return static_cast<int>(weights_.by_segments.quotient(static_cast<unsigned>(end - from))) * kRows *
           count_;
  }
  __device__ int row_of(int i) const { return divide(i, count_) % kRows; }
  __device__ int strip_of(int i, int from) const {
    return static_cast<int>(weights_.by_segments.quotient(static_cast<unsigned>(from))) +
           divide(i, count_) / kRows;
  }
  __device__ void prepare_first(int from, int end) {
    const int own = static_cast<int>(threadIdx.x);
    if (own < num_values(from, end)) first_ = prepare_(strip_of(own, from) - units_.first_strip, row_of(own));
  }

  const Strips& weights_;
  const GroupUnits units_;
  const int count_;
  const Prepare prepare_;
  const Take take_;
  std::invoke_result_t<Prepare, int, int> first_{};
};

// Returns the epilogue of experts_up, which adds the bias and applies SwiGLU.
template <int warps>
__device__ auto up_epilogue(const UpWeights& up, const GroupUnits& units, const Group& group,
                            __nv_bfloat16* gated) {
  constexpr int kUnits{kStripRows / 2};  // gate rows of a strip; the same number of up rows comes after them
  const float* bias = up.bias + size_t{2} * group.expert * up.intermediate;
  const auto prepare = [=, &up](int strip, int row) {
    const int unit = strip * kUnits + row;
    return unit < up.intermediate ? load_now(reinterpret_cast<const float2*>(bias) + unit) : float2{};
  };
  const auto take = [=, &up](int strip, int row, int column, float2 biases, const auto& sum) {
    const int unit = strip * kUnits + row;
    if (unit >= up.intermediate) return;
    const float value = swiglu(sum(row) + biases.x, sum(row + kUnits) + biases.y, up.limit);
    gated[size_t{1} * group.pair(column) * up.intermediate + unit] = __float2bfloat16_rn(value);
  };
  return Epilogue<kUnits, warps, decltype(prepare), decltype(take)>(up.weights, units, group.count, prepare,
                                                                    take);
}

}  // namespace nibble::cuda
