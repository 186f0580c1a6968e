// Adds the updates of adapters to dense products. The order of each sum depends only on the matrix and the
// rank, so a row has the same bits in every step. Both kernels wait for their predecessors first, also in
// CTAs of rows without an adapter, because kernels after them rely on that (pdl.cuh).
//
// A and B are read once per row; rows that share an adapter find them in L2.
#include "backend/cuda/dense/adapters.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/warp_reduce.cuh"

namespace nibble::cuda {
namespace {

constexpr int kThreads{256}, kWarps{kThreads / 32};

__device__ OptionalIndex adapter_of(const AdapterRows& rows, int n) {
  return rows.adapters[rows.rows ? rows.rows[n] : n];
}

__device__ float2 two_floats(const __nv_bfloat16* two) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(two));
}

// Returns elements `col` to `col` + 3 of a row of x. `col` is a multiple of 4.
__device__ float4 four_of(const AddUpdatesArgs& args, int row, int col) {
  const __nv_bfloat16 *low, *high;
  if (args.x.image_rows == 0) {
    low = args.x.data + size_t{1} * row * args.matrices.cols + col;
    high = low + 2;
  } else {
    // In a cell, adjacent columns stay together in pairs, not in fours (lane_order()).
    const __nv_bfloat16* const cell = args.x.data + cell_of(row, col / kTileCols, args.x.image_rows) / 2;
    low = cell + place_in_cell(row, col) / 2;
    high = cell + place_in_cell(row, col + 2) / 2;
  }
  const float2 first = two_floats(low), second = two_floats(high);
  return make_float4(first.x, first.y, second.x, second.y);
}

// Computes products = A x. A CTA handles one row of x and kWarps rows of A, a warp one row of A.
__global__ void __launch_bounds__(kThreads)
    shrink_kernel(const __grid_constant__ AddUpdatesArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const AdapterUpdates& matrices = args.matrices;
  const int n = static_cast<int>(blockIdx.x), which = static_cast<int>(blockIdx.z),
            k = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32,
            lane = static_cast<int>(threadIdx.x) % 32;
  const OptionalIndex adapter = adapter_of(args.rows, n);
  if (!adapter.has_value()) return;
  const AdapterUpdate update = matrices.updates[adapter.value() * matrices.count + which];
  if (k >= update.rank) return;
  const auto* const a = reinterpret_cast<const float4*>(update.a + size_t{1} * k * matrices.cols);
  float sum = 0;
  for (int i = lane; i < matrices.cols / 4; i += 32) {
    const float4 weights = a[i], x = four_of(args, n, 4 * i);
    sum += weights.x * x.x + weights.y * x.y + weights.z * x.z + weights.w * x.w;
  }
  sum = reduce_warp(sum, cooperative_groups::plus<float>());
  if (lane == 0) args.products[(size_t{1} * n * matrices.count + which) * matrices.most_rank + k] = sum;
}

// Adds B products to y. A thread handles one element of y.
__global__ void __launch_bounds__(kThreads)
    expand_kernel(const __grid_constant__ AddUpdatesArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  wait_for_predecessor(timestamps);
  let_successor_start();
  const AdapterUpdates& matrices = args.matrices;
  const int n = static_cast<int>(blockIdx.x),
            column = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  const OptionalIndex adapter = adapter_of(args.rows, n);
  if (!adapter.has_value()) return;
  int row = column, which = 0, num_rows = matrices.num_rows[0];  // the column's matrix, and its row in there
#pragma unroll
  for (int next = 1; next < kMostUpdates; ++next)
    if (which == next - 1 && next < matrices.count && row >= num_rows) {
      row -= num_rows;
      which = next;
      num_rows = matrices.num_rows[next];
    }
  if (row >= num_rows) return;
  const AdapterUpdate update = matrices.updates[adapter.value() * matrices.count + which];
  if (update.rank == 0) return;
  const float* const products = args.products + (size_t{1} * n * matrices.count + which) * matrices.most_rank;
  float sum = 0;
  for (int k = 0; k < update.rank; ++k) sum += update.b[size_t{1} * k * num_rows + row] * products[k];
  args.y[size_t{1} * n * args.row_stride + column] += sum;
}

unsigned num_ctas(int count, int per_cta) { return static_cast<unsigned>((count + per_cta - 1) / per_cta); }

}  // namespace

void add_updates(const LaunchContext& gpu, Operation operation, const AddUpdatesArgs& args) {
  const AdapterUpdates& matrices = args.matrices;
  int num_columns = 0;
  for (int which = 0; which < matrices.count; ++which) num_columns += matrices.num_rows[which];
  const auto rows = static_cast<unsigned>(args.rows.count);
  launch(gpu, {operation, "shrink"}, shrink_kernel,
         {dim3(rows, num_ctas(matrices.most_rank, kWarps), static_cast<unsigned>(matrices.count)), kThreads},
         args);
  launch(gpu, {operation, "expand"}, expand_kernel, {dim3(rows, num_ctas(num_columns, kThreads)), kThreads},
         args);
}

void prepare_adapters() {
  prefer_shared_memory(shrink_kernel);
  prefer_shared_memory(expand_kernel);
}

}  // namespace nibble::cuda
