// experts_up (with SwiGLU) and experts_down of many tokens on Hopper, by wgmma or, for groups of up to 8
// pairs (kBatchColumns), by mma.sync. The pairs (of a token and an expert) of a group are adjacent rows of an
// image. A separate kernel gathers the norms of all pairs in an image before experts_up; experts_up writes
// its results in the same order of rows for experts_down.
#include <algorithm>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/experts/group_items.cuh"
#include "backend/cuda/experts/swiglu.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/image_columns.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/row_limits.h"
#include "core/errors/check.h"

namespace nibble::cuda {
namespace {

// With kBatchColumns, few pairs share an expert, so CTAs often wait for weights. Two CTAs then share an SM:
// one multiplies while the other waits.
template <int columns>
using ExpertShape = ImageShape<Layout::kMxfp4, columns, 3, columns == kBatchColumns ? 2 : 1>;

// Number of threads of a CTA of gather_kernel, and largest number of pairs whose norms the CTA copies.
constexpr int kGatherThreads{256};
constexpr int gathered_rows(int columns) { return std::min(columns, 16); }
static_assert(kBatchColumns % gathered_rows(kBatchColumns) == 0 &&
              kManyColumns % gathered_rows(kManyColumns) == 0 &&
              kMostColumns % gathered_rows(kMostColumns) == 0);

// Copies the norms of up to `rows` pairs of a group from the image of tokens to the image of pairs. A 16-byte
// piece moves to another place in its row, because the swizzle depends on the row's index modulo 8. With
// kBatchColumns a group often has only two or three pairs, so all threads share the pieces of each pair. To
// save time, threads load the group's data before they know whether the group exists. In a step of 16 rows of
// gpt-oss-120b on an H200, the kernel takes 2.4 us; with one thread per pair it took 6.4 us.
template <int rows>
__global__ void __launch_bounds__(kGatherThreads)
    gather_kernel(const __grid_constant__ ExpertsUpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  static_assert(rows * kCellPieces <= kGatherThreads);
  __shared__ int tokens[rows];
  wait_for_predecessor(timestamps);
  let_successor_start();
  const int group = static_cast<int>(blockIdx.x), first = static_cast<int>(blockIdx.y) * rows,
            own = static_cast<int>(threadIdx.x);
  const int num_groups = __ldcg(args.groups.count),
            num_rows = min(__ldcg(args.groups.num_pairs + group) - first, rows),
            first_row = __ldcg(args.groups.image_row + group) + first;
  if (own < rows)
    tokens[own] = __ldcg(args.groups.pairs + group * args.groups.size + first + own) / args.experts_per_token;
  if (group >= num_groups) return;
  __syncthreads();
  const int pieces_of_row = args.up.weights.num_tiles * kCellPieces, num_pieces = num_rows * pieces_of_row;
  const auto* const from = reinterpret_cast<const uint8_t*>(args.normed.data);
  auto* const to = reinterpret_cast<uint8_t*>(args.gathered.data);
  constexpr int kAhead{4};  // pieces that a thread requests at once
  for (int i = own; i < num_pieces; i += kAhead * kGatherThreads) {
    uint4 pieces[kAhead];
    const auto visit = [&](const auto& f) {
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        const int at = i + n * kGatherThreads, in_slab = at / pieces_of_row,
                  of_row = at - in_slab * pieces_of_row;
        if (at < num_pieces) f(pieces[n], in_slab, of_row / kCellPieces, of_row % kCellPieces);
      }
    };
    visit([&](uint4& to_register, int in_slab, int tile, int piece) {
      const int token = tokens[in_slab];
      to_register = __ldcg(reinterpret_cast<const uint4*>(
          from + cell_of(token, tile, args.normed.image_rows) + (piece ^ token % kRowsOfSwizzle) * 16));
    });
    visit([&](const uint4& loaded, int in_slab, int tile, int piece) {
      const int row = first_row + in_slab;
      *reinterpret_cast<uint4*>(to + cell_of(row, tile, args.gathered.image_rows) +
                                (piece ^ row % kRowsOfSwizzle) * 16) = loaded;
    });
  }
  const int padding = own % kCellPieces, row = first_row + own / kCellPieces;
  // Zeros the columns that pad the last tile of experts_up's results; experts_up does not write these
  // columns.
  if (has_padding(args.up.intermediate) && padding >= kFirstPaddingPiece && own / kCellPieces < num_rows)
    *reinterpret_cast<uint4*>(reinterpret_cast<uint8_t*>(args.gated.data) +
                              cell_of(row, args.up.intermediate / kTileCols, args.gated.image_rows) +
                              (padding ^ row % kRowsOfSwizzle) * 16) = {};
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    experts_up_images_kernel(const __grid_constant__ ExpertsUpArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  const UpWeights& up = args.up;
  const auto pair_itself = [](int pair) { return pair; };
  const GroupItems<Shape, decltype(pair_itself)> items(args.groups, up.weights, pair_itself);
  multiply_items<Shape>(
      timestamps, {up.weights, {args.gathered.data, args.gathered.image_rows}}, items,
      [&](const PromptItem& item, int strip) {
        const int g = static_cast<int>(threadIdx.x) % 32 / 4, unit = strip * (kStripRows / 2) + g;
        const float2 bias = unit < up.intermediate ? up_bias(up, item.matrix, unit) : float2{};
        return [&up, &args, item, g, unit, bias](int, bool, const auto& sums) {
          // A lane has the results of one unit (intermediate element of the expert) in two adjacent columns.
          // Lanes with g = 2 k and 2 k + 1 swap a value. Then each of them has two adjacent units of one
          // column, and stores them together.
          const bool is_odd = g % 2;
          const int first_unit = unit - is_odd, first_column = first_column_of_lane<Shape>() + is_odd;
          uint8_t* const cells = reinterpret_cast<uint8_t*>(args.gated.data) +
                                 cell_of(item.image_row, first_unit / kTileCols, args.gated.image_rows);
          const auto gated = [&](float gate, float linear) {
            return swiglu(gate + bias.x, linear + bias.y, up.limit);
          };
#pragma unroll
          for (int n = 0; n < static_cast<int>(sizeof(sums) / sizeof(sums[0])); ++n) {
            const float here = gated(sums[n][0], sums[n][2]), beside = gated(sums[n][1], sums[n][3]);
            const float other = __shfl_xor_sync(~0u, is_odd ? here : beside, 4);
            const __nv_bfloat162 pair =
                is_odd ? __floats2bfloat162_rn(other, beside) : __floats2bfloat162_rn(here, other);
            const int column = first_column + 8 * n, row = item.image_row + column;
            if (column < item.columns && first_unit < up.intermediate)
              *reinterpret_cast<__nv_bfloat162*>(cells + column * kCellBytes +
                                                 place_in_cell(row, first_unit)) = pair;
          }
        };
      });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtas)
    experts_down_images_kernel(const __grid_constant__ ExpertsDownArgs args, Timestamps timestamps) {
  const EndTimestamp end_timestamp(timestamps);
  multiply_groups<Shape>(
      timestamps, {args.weights, {args.gated.data, args.gated.image_rows}}, args.groups,
      [](int pair) { return pair; },
      [&](int expert, int strip, int g) { return take_down(args, expert, strip, g); });
}

template <typename F>
void with_columns(int columns, const F& f) {
  switch (columns) {
    case kBatchColumns:
      return f(std::integral_constant<int, kBatchColumns>());
    case kManyColumns:
      return f(std::integral_constant<int, kManyColumns>());
    case kMostColumns:
      return f(std::integral_constant<int, kMostColumns>());
  }
  NIBBLE_CHECK(false, "groups of {} pairs", columns);
}
template <typename Shape>
void prepare() {
  allow_shared_bytes(experts_up_images_kernel<Shape>, Shape::kBytes);
  allow_shared_bytes(experts_down_images_kernel<Shape>, Shape::kBytes);
}

}  // namespace

void experts_up_images(const LaunchContext& gpu, const ExpertsUpArgs& args) {
  with_columns(args.groups.size, [&](auto columns) {
    using Shape = ExpertShape<columns()>;
    constexpr int kRows{gathered_rows(columns())};
    launch(gpu, {Operation::kExpertsUp, "gather"}, gather_kernel<kRows>,
           {dim3(static_cast<unsigned>(args.max_groups), static_cast<unsigned>(columns() / kRows)),
            kGatherThreads},
           args);
    launch(gpu, {Operation::kExpertsUp, "experts_up"}, experts_up_images_kernel<Shape>,
           group_shape<Shape>(gpu.target, args.up.weights, args.max_groups), args);
  });
}
void experts_down_images(const LaunchContext& gpu, const ExpertsDownArgs& args) {
  with_columns(args.groups.size, [&](auto columns) {
    using Shape = ExpertShape<columns()>;
    launch(gpu, {Operation::kExpertsDown, "experts_down"}, experts_down_images_kernel<Shape>,
           group_shape<Shape>(gpu.target, args.weights, args.max_groups), args);
  });
}

void prepare_image_experts() {
  prepare<ExpertShape<kBatchColumns>>();
  prepare<ExpertShape<kManyColumns>>();
  prepare<ExpertShape<kMostColumns>>();
}

}  // namespace nibble::cuda
