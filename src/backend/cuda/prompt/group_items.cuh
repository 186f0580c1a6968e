// The items of the experts' products (pipeline.cuh): groups, and blocks of rows of the group's expert. The blocks of a group follow each
// other, so that memory delivers its activations once, and each strip once or, where an expert has several groups, soon again.
#pragma once

#include <utility>

#include "backend/cuda/device/pdl.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/prompt/pipeline.cuh"

namespace nibble::cuda {

// `first_column` is the place of the group's pairs.
//
// By wgmma groups are read before the launch ahead has ended. They are there by then. The launch that ranks the experts writes them, and
// behind it come those that gather pairs, experts_up and experts_down. Each of these waits before it lets the next one start (pdl.cuh); and none
// starts before every CTA of the one ahead has let it. So when experts_up starts, each CTA that gathers has seen the ranking end, and what a
// launch stored is in L2 when the wait for it is over: from there __ldcg reads it. experts_down starts later still.
template <typename Shape, typename RowOf>
struct GroupItems {
  static constexpr bool kAreReadOnce{true};  // the weights, but for experts of several groups
  const Groups& groups;
  const RowOf& row_of;  // the row of the activations of a pair
  int num_row_blocks;

  __device__ GroupItems(const Groups& all, const Strips& weights, const RowOf& row)
      : groups(all), row_of(row), num_row_blocks(row_blocks<Shape>(weights)) {}
  __device__ int count() const { return __ldcg(groups.count) * num_row_blocks; }
  __device__ PromptItem at(int index) const {
    const int group = index / num_row_blocks;
    return {__ldcg(groups.expert + group), index % num_row_blocks * Shape::kStrips, group * groups.size,
            __ldcg(groups.num_pairs + group), Shape::kTakesImage ? __ldcg(groups.image_row + group) : 0};
  }
  __device__ int pair(const PromptItem& item, int column) const {
    return __ldcg(groups.pairs + item.first_column + column);
  }
  __device__ int row(const PromptItem& item, int column) const { return row_of(pair(item, column)); }
};

// Takes the sums of rows g and g + 8 of a strip: store(pair, load(pair), upper, lower) for each pair of the lane.
template <typename Load, typename Store>
struct PairSums {
  Load load;
  Store store;
};
template <typename Load, typename Store>
PairSums(Load, Store) -> PairSums<Load, Store>;

// Calls f(n, c, column) for both columns of the lane in each of the tiles n of 8 columns from `first` to `last`, that one excluded.
template <typename Shape, typename F>
__device__ __forceinline__ void visit_columns(int first, int last, const F& f) {
#pragma unroll
  for (int n = first; n < last; ++n)
#pragma unroll
    for (int c = 0; c < 2; ++c) f(n, c, first_column_of_lane<Shape>() + 8 * n + c);
}

// The pairs of an item of a batch that a lane has sums of, and what their sums meet. There are few of them, so both are asked for before the
// products: the end of an item would wait twice for memory.
template <typename Shape, typename Take>
class PairsOfBatch {
 public:
  __device__ PairsOfBatch(const Groups& groups, const PromptItem& item, const Take& take)
      : columns_(item.columns) {
    visit_columns<Shape>(0, kTiles,
                         [&](int n, int c, int column) {  // behind the last column, the last one again
                           pair_[n][c] = __ldcg(groups.pairs + item.first_column + min(column, columns_ - 1));
                         });
    visit_columns<Shape>(0, kTiles, [&](int n, int c, int) { loaded_[n][c] = take.load(pair_[n][c]); });
  }
  template <int tiles>
  __device__ void store(const Take& take, const float (&sums)[tiles][4]) const {
    visit_columns<Shape>(0, tiles, [&](int n, int c, int column) {
      if (column < columns_) take.store(pair_[n][c], loaded_[n][c], sums[n][c], sums[n][c + 2]);
    });
  }

 private:
  static constexpr int kTiles{Shape::kColumns / 8};

  const int columns_;
  int pair_[kTiles][2];
  decltype(std::declval<Take>().load(0)) loaded_[kTiles][2];
};

// Multiplies the groups' pairs with their experts' strips. begin(expert, strip, g) returns PairSums. What they load is asked for a run of
// columns at once, before any of it is stored: one behind each store would cost the latency of memory every time.
template <typename Shape, typename RowOf, typename Begin>
__device__ void multiply_groups(const Timestamps& timestamps, const Strips& weights, const Groups& groups,
                                const typename Shape::Rows& activations, const RowOf& row_of,
                                const Begin& begin) {
  const GroupItems<Shape, RowOf> items(groups, weights, row_of);
  multiply_items<Shape>(timestamps, weights, activations, items, 0, [&](const PromptItem& item, int strip) {
    const auto take = begin(item.matrix, strip, static_cast<int>(threadIdx.x) % 32 / 4);
    if constexpr (Shape::kColumns <= kBatchColumns) {
      return [take, pairs = PairsOfBatch<Shape, decltype(take)>(groups, item, take)](
                 int, bool, const auto& sums) { pairs.store(take, sums); };
    } else {
      return [&groups, item, take](int, bool, const auto& sums) {
        constexpr int kRun{4}, kTiles{sizeof(sums) / sizeof(sums[0])};
        const int* pairs = groups.pairs + item.first_column;
#pragma unroll
        for (int run = 0; run < kTiles; run += kRun) {
          int pair[kRun][2];
          decltype(take.load(0)) loaded[kRun][2];
          const auto visit = [&](const auto& f) { visit_columns<Shape>(run, min(run + kRun, kTiles), f); };
          visit([&](int n, int c, int column) {  // behind the last column, the last one again
            pair[n - run][c] = __ldcg(pairs + min(column, item.columns - 1));
          });
          visit([&](int n, int c, int) { loaded[n - run][c] = take.load(pair[n - run][c]); });
          visit([&](int n, int c, int column) {
            if (column < item.columns)
              take.store(pair[n - run][c], loaded[n - run][c], sums[n][c], sums[n][c + 2]);
          });
        }
      };
    }
  });
}

// A lane's biases of a gate and its up.
__device__ inline float2 up_bias(const UpWeights& up, int expert, int unit) {
  return reinterpret_cast<const float2*>(up.bias + size_t{2} * expert * up.intermediate)[unit];
}

// Takes the sums of a strip's rows g and g + 8 to the result of experts_down().
__device__ inline auto take_down(const ExpertsDownArgs& args, int expert, int strip, int g) {
  const int row = strip * kStripRows + g;
  const float* bias = args.bias + size_t{1} * expert * args.hidden + row;
  const bool has_upper = row < args.hidden, has_lower = row + 8 < args.hidden;
  const float upper_bias = has_upper ? bias[0] : 0, lower_bias = has_lower ? bias[8] : 0;
  return PairSums{[&args](int pair) { return __ldcg(args.groups.weight + pair); },
                  [=, &args](int pair, float weight, float upper, float lower) {
                    float* out = args.out + size_t{1} * pair * args.hidden + row;
                    if (has_upper) out[0] = weight * (upper + upper_bias);
                    if (has_lower) out[8] = weight * (lower + lower_bias);
                  }};
}

template <typename Shape>
LaunchShape group_shape(const Target& target, const Strips& weights, int max_groups) {
  return shape_for_items<Shape>(target, max_groups * row_blocks<Shape>(weights));
}

}  // namespace nibble::cuda
