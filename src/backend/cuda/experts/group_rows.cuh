#pragma once

#include "backend/cuda/experts/group_table.cuh"
#include "backend/cuda/pipeline/inputs.cuh"

namespace nibble::cuda {

// The activations of a CTA's groups in experts_down(), one row per pair of a token and an expert. prefetch()
// requests a group's rows. take() waits for them, and synchronizes the CTA; after take(), prefetch() may
// request the next group's rows. This variant has shared memory for one group, and prefetches the next
// group's rows into registers as far as they fit.
template <int warps, bool has_two>
class GroupRows {
 public:
  __device__ GroupRows(RowMatrix from, __nv_bfloat16* to, int) : from_(from), to_(to) {}
  __device__ void prefetch(const Group& group) { rows_.prefetch(from_, group.count, row_at(group)); }
  __device__ Columns take(const Group& group) {
    const int stride = activation_stride(from_.cols);
    rows_.store(from_, row_at(group), {to_, stride, group.count});
    return {to_, stride, group.count};
  }

 private:
  static __device__ auto row_at(const Group& group) {
    return [&group](int column) { return group.pair(column); };
  }

  const RowMatrix from_;
  __nv_bfloat16* const to_;
  RowPrefetch<warps> rows_;
};
// The variant with shared memory for two groups of `columns` rows: the next group's rows are copied there
// during the products of the current group.
template <int warps>
class GroupRows<warps, true> {
 public:
  __device__ GroupRows(RowMatrix from, __nv_bfloat16* to, int columns)
      : from_(from), prefetched_(to), taken_(to + columns * activation_stride(from.cols)) {}
  __device__ void prefetch(const Group& group) {
    prefetch_rows(from_, [&](int column) { return group.pair(column); },
                  {prefetched_, activation_stride(from_.cols), group.count},
                  {static_cast<int>(threadIdx.x), 32 * warps});
  }
  __device__ Columns take(const Group& group) {
    wait_for_rows();
    __nv_bfloat16* const rows = prefetched_;
    prefetched_ = taken_;
    taken_ = rows;
    return {rows, activation_stride(from_.cols), group.count};
  }

 private:
  const RowMatrix from_;
  __nv_bfloat16 *prefetched_, *taken_;
};

}  // namespace nibble::cuda
