// Computes the experts' products of many tokens with block-scaled activations. experts_up (with SwiGLU) reads
// norms that rms_norm() has quantised, and writes its results in the same format for experts_down.
// Activations are rounded to bfloat16 before they are quantised, so MXFP8x2 represents almost exactly the
// numbers that bfloat16 kernels use.
#include "backend/cuda/chip/target.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/experts/group_items.cuh"
#include "backend/cuda/experts/swiglu.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/block_columns.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/pipeline/store_block.cuh"
#include "backend/cuda/ptx/launch.cuh"

namespace nibble::cuda {
namespace {

// A block of 32 results of experts_up comes from four strips, which four adjacent warps compute. A strip has
// the gate and up rows of 8 units (intermediate elements of the expert). The warps gather the results in
// shared memory, [columns of the item, 32], and quantise them from there.
constexpr int kGatherWarps{4}, kStripUnits{kStripRows / 2};
static_assert(kGatherWarps * kStripUnits == kBlockCols);

template <BlockFormat format>
using DownShape = BlockShape<format>;
template <BlockFormat format>
using UpShape = BlockShape<format, PromptWarps::kWarps / kGatherWarps * PromptWarps::kWarpColumns *
                                       kBlockCols* static_cast<int>(sizeof(__nv_bfloat16))>;

// Shared memory in which four warps gather their results. Each lane then quantises eight adjacent results at
// a time.
template <typename Shape>
class Gathered {
 public:
  __device__ Gathered() {
    NIBBLE_DYNAMIC_SHARED(__align__(128) uint8_t, memory);
    numbers_ = reinterpret_cast<__nv_bfloat16*>(memory + Shape::kStagesBytes) +
               static_cast<int>(threadIdx.x) / kThreads * Shape::kColumns * kBlockCols;
  }
  // Stores one result of this warp's strip. `unit`: index of the unit in the strip, 0 to 7.
  __device__ void put(int column, int unit, float x) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    numbers_[column * kBlockCols + warp % kGatherWarps * kStripUnits + unit] = __float2bfloat16_rn(x);
  }
  // Synchronizes the four warps. Call it before put(), and again before for_each_eight().
  __device__ void sync() const { sync_warps(1 + static_cast<int>(threadIdx.x) / kThreads, kThreads); }
  // Calls visit(column, t, numbers) for results 8 t to 8 t + 7 (t = 0 to 3) of each column. The four lanes of
  // a quad get the same column, and different t.
  template <typename Visit>
  __device__ void for_each_eight(const Visit& visit) const {
    for (int i = static_cast<int>(threadIdx.x) % kThreads; i < Shape::kColumns * 4; i += kThreads)
      visit(i / 4, i % 4, numbers_ + 8 * i);
  }

 private:
  static constexpr int kThreads{32 * kGatherWarps};
  __nv_bfloat16* numbers_;
};

// The kernel of experts_up. Four adjacent warps synchronize to gather a block, so all four or none must have
// a strip. This holds because an item starts at a multiple of Shape::kStrips strips (a multiple of 4), and a
// matrix has a multiple of 4 strips (whole blocks).
template <BlockFormat format>
__global__ void __launch_bounds__(PromptWarps::kThreads, 1)
    experts_up_blocks_kernel(const __grid_constant__ ExpertsUpArgs args, Timestamps timestamps) {
  using Shape = UpShape<format>;
  static_assert(Shape::kStrips % kGatherWarps == 0 && Shape::kColumns == kManyColumns);
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  const auto row_of = [&](int pair) { return pair / args.experts_per_token; };
  const GroupItems<Shape, decltype(row_of)> items(args.groups, up.weights, row_of);
  const Gathered<Shape> gathered;
  multiply_items<Shape>(
      timestamps, {up.weights, WholeBlockRows(args.normed.blocks)}, items,
      [&](const PromptItem& item, int strip) {
        const int g = static_cast<int>(threadIdx.x) % 32 / 4, first = first_column_of_lane<Shape>();
        const float2 bias = up_bias(up, item.matrix, strip * kStripUnits + g);
        return [&up, &args, &items, &gathered, item, strip, g, first, bias](int, bool, const auto& sums) {
          gathered.sync();
          for_each_column<Shape>(item, sums, [&](int i, float gate, float linear) {
            gathered.put(first + i, g, swiglu(gate + bias.x, linear + bias.y, up.limit));
          });
          gathered.sync();
          const int block = strip / kGatherWarps;
          // A tile has two blocks. If the matrix ends after the first block of a tile, zeros are stored as
          // the second.
          const bool is_last = kBlockCols * (block + 1) == up.intermediate && block % 2 == 0;
          gathered.for_each_eight([&](int column, int t, const __nv_bfloat16* numbers) {
            const bool is_there = column < item.columns;
            const int pair = is_there ? items.pair(item, column) : 0;
            store_eight<format>(args.gated.blocks, pair, 4 * block + t, is_there, numbers);
            constexpr float kZeros[8]{};
            if (is_last) store_eight<format>(args.gated.blocks, pair, 4 * block + 4 + t, is_there, kZeros);
          });
        };
      });
}

template <BlockFormat format>
__global__ void __launch_bounds__(PromptWarps::kThreads, 1)
    experts_down_blocks_kernel(const __grid_constant__ ExpertsDownArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_groups<DownShape<format>>(
      timestamps, {args.weights, WholeBlockRows(args.gated.blocks)}, args.groups,
      [](int pair) { return pair; },
      [&](int expert, int strip, int g) { return take_down(args, expert, strip, g); });
}

}  // namespace

void experts_up_blocks(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  with_block_format(args.normed.blocks.format, [&](auto format) {
    launch(gpu, {Operation::kExpertsUp, "experts_up"}, experts_up_blocks_kernel<format()>,
           group_shape<UpShape<format()>>(gpu.target, args.up.weights, args.max_groups), args);
  });
}
void experts_down_blocks(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  with_block_format(args.gated.blocks.format, [&](auto format) {
    launch(gpu, {Operation::kExpertsDown, "experts_down"}, experts_down_blocks_kernel<format()>,
           group_shape<DownShape<format()>>(gpu.target, args.weights, args.max_groups), args);
  });
}

size_t block_shared_bytes(BlockFormat format) {
  size_t bytes = 0;
  with_block_format(format, [&](auto f) { bytes = std::max(UpShape<f()>::kBytes, DownShape<f()>::kBytes); });
  return bytes;
}

void prepare_prompt_blocks() {
  for (const BlockFormat each : kBlockFormats)
    with_block_format(each, [&](auto format) {
      allow_shared_bytes(experts_up_blocks_kernel<format()>, UpShape<format()>::kBytes);
      allow_shared_bytes(experts_down_blocks_kernel<format()>, DownShape<format()>::kBytes);
    });
}

}  // namespace nibble::cuda
