#include "backend/cuda/ranks/add_parts.h"

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/divisor.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ranks/links.cuh"
#include "backend/cuda/ranks/protocol.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

constexpr int kThreads{128}, kMostParts{8};
static_assert(kMostParts >= kMaxExpertsPerToken && kMostParts >= kMaxRanks);

// Each thread loads all parts of four adjacent elements of a row, then adds them.
__global__ void __launch_bounds__(kThreads)
    add_parts_kernel(const __grid_constant__ AddArgs args, Divisor by_fours, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const unsigned i = blockIdx.x * kThreads + threadIdx.x, row = by_fours.quotient(i);
  const int col = 4 * static_cast<int>(by_fours.remainder(i));
  wait_for_predecessor(timestamps);
  let_successor_start();
  if (row >= static_cast<unsigned>(args.num_rows)) return;
  const int part_row = args.part_rows ? __ldcg(args.part_rows + row) : static_cast<int>(row);
  const float* from = args.parts + max(part_row, 0) * args.row_stride + col;
  float4 loaded[kMostParts], sum{};
  if (args.x) sum = __ldcg(reinterpret_cast<const float4*>(args.x) + i);
#pragma unroll
  for (int p = 0; p < kMostParts; ++p)
    if (p < args.num_parts) {
      const bool is_there =
          part_row >= 0 && (!args.weights || __ldcg(args.weights + row * args.num_parts + p) != 0);
      loaded[p] = is_there ? __ldcg(reinterpret_cast<const float4*>(from + p * args.part_stride)) : float4{};
    }
  if (args.x)
    add_to(sum, loaded[0]);
  else
    sum = loaded[0];
#pragma unroll
  for (int p = 1; p < kMostParts; ++p)
    if (p < args.num_parts) add_to(sum, loaded[p]);
  reinterpret_cast<float4*>(args.out)[i] = sum;
}

}  // namespace

void add_parts(const LaunchContext& gpu, const Label& label, const AddArgs& args) {
  NIBBLE_CHECK(args.num_parts >= 1 && args.num_parts <= kMostParts && args.hidden % 4 == 0, "{} parts of {}",
               args.num_parts, args.hidden);
  const auto fours = static_cast<unsigned>(args.num_rows * (args.hidden / 4));
  launch(gpu, label, add_parts_kernel, {dim3((fours + kThreads - 1) / kThreads), kThreads}, args,
         Divisor(static_cast<unsigned>(args.hidden / 4)));
}

void prepare_add_parts() { prefer_shared_memory(add_parts_kernel); }

}  // namespace nibble::cuda
