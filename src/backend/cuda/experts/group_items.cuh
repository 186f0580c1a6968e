// Items of the experts' products of many tokens (pipeline.cuh). An item is a group of pairs (of a token and
// an expert), with a block of rows of the group's expert. CTAs process items with adjacent indices at about
// the same time. The items of a group are adjacent, so most reads of the group's activations hit in L2. If an
// expert has two groups, their items are adjacent too, so reads of the weights can also hit in L2.
#pragma once

#include "backend/cuda/chip/target.h"
#include "backend/cuda/experts/args.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/pipeline.cuh"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {

// An item of a group. `first_column`: index of the group's first pair in Groups::pairs. In each lane,
// pairs[n] is the pair of the warp's column 32 n + lane. Pairs are loaded with the item, so that no lane
// waits for them when the sums are ready.
template <typename Shape>
struct GroupItem : PromptItem {
  static constexpr int kParts{(Shape::kWarpColumns + 31) / 32};
  int pairs[kParts];
};
// Returns the column (index in the item) whose pair this lane holds in pairs[part].
template <typename Shape>
__device__ int column_of_lane(int part) {
  return static_cast<int>(threadIdx.x) / 32 / Shape::kRowWarps * Shape::kWarpColumns +
         min(32 * part + static_cast<int>(threadIdx.x) % 32, Shape::kWarpColumns - 1);
}

// The items of all groups. wgmma kernels read the groups before the previous launch has ended. The groups are
// complete by then: the launch that ranks experts writes them, then come the launches gather, experts_up and
// experts_down. Each of these launches waits for the previous one before it lets the next one start, and a
// launch starts once every CTA of the previous launch has allowed the start (pdl.cuh). So when experts_up or
// experts_down starts, all CTAs of gather have seen the end of the ranking. Groups are read by __ldcg, from
// L2, because L1 may be stale.
template <typename Shape, typename RowOf>
struct GroupItems {
  static constexpr bool kAreReadOnce{true};  // L2 evicts the weights first: a group reads them only once
  const Groups& groups;
  const RowOf& row_of;  // row_of(pair): the row of the activations for that pair
  int num_row_blocks;

  __device__ GroupItems(const Groups& all, const Strips& weights, const RowOf& row)
      : groups(all), row_of(row), num_row_blocks(row_blocks<Shape>(weights)) {}
  __device__ int count() const { return __ldcg(groups.count) * num_row_blocks; }
  __device__ GroupItem<Shape> at(int index) const {
    const int group = index / num_row_blocks, first = group * groups.size;
    GroupItem<Shape> item{
        {__ldcg(groups.expert + group), index % num_row_blocks * Shape::kStrips, first,
         __ldcg(groups.num_pairs + group), Shape::kTakesImage ? __ldcg(groups.image_row + group) : 0},
        {}};
#pragma unroll
    for (int part = 0; part < item.kParts; ++part)  // entries after the group's last pair are not used
      item.pairs[part] = __ldcg(groups.pairs + first + column_of_lane<Shape>(part));
    return item;
  }
  __device__ int pair(const PromptItem& item, int column) const {
    return __ldcg(groups.pairs + item.first_column + column);
  }
  __device__ int row(const PromptItem& item, int column) const { return row_of(pair(item, column)); }
};

// Functions that take the sums of a product. For each pair, multiply_groups() calls store(pair,
// load(pair), sum of row g, sum of row g + 8); g = lane / 4.
template <typename Load, typename Store>
struct PairSums {
  Load load;
  Store store;
};
template <typename Load, typename Store>
PairSums(Load, Store) -> PairSums<Load, Store>;
// Pairs, and the data loaded for them, which a lane keeps until the item's sums are ready.
template <typename Shape, typename Loaded>
struct PairsOfLane {
  int pair[GroupItem<Shape>::kParts];
  Loaded loaded[GroupItem<Shape>::kParts]{};
};

// Multiplies the activations of each group's pairs with the expert's strips. begin(expert, strip, g) returns
// the PairSums of rows g and g + 8 of a strip. Before the products, the lane that holds a pair calls load()
// for the pair. After the products, the lanes exchange the loaded data.
template <typename Shape, typename RowOf, typename Begin>
__device__ void multiply_groups(const Timestamps& timestamps, const ProductInput<Shape>& input,
                                const Groups& groups, const RowOf& row_of, const Begin& begin) {
  const GroupItems<Shape, RowOf> items(groups, input.weights, row_of);
  multiply_items<Shape>(timestamps, input, items, [&](const GroupItem<Shape>& item, int strip) {
    const auto take = begin(item.matrix, strip, static_cast<int>(threadIdx.x) % 32 / 4);
    PairsOfLane<Shape, decltype(take.load(0))> pairs;
#pragma unroll
    for (int part = 0; part < item.kParts; ++part) {
      pairs.pair[part] = item.pairs[part];
      if (column_of_lane<Shape>(part) < item.columns) pairs.loaded[part] = take.load(item.pairs[part]);
    }
    return [take, pairs, columns = item.columns](int, bool, const auto& sums) {
      const int first = first_column_of_lane<Shape>(), in_warp = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
      for (int n = 0; n < static_cast<int>(sizeof(sums) / sizeof(sums[0])); ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int part = n / 4, from = 8 * n % 32 + in_warp + c;
          const int pair = __shfl_sync(~0u, pairs.pair[part], from);
          const auto loaded = __shfl_sync(~0u, pairs.loaded[part], from);
          if (first + 8 * n + c < columns) take.store(pair, loaded, sums[n][c], sums[n][c + 2]);
        }
    };
  });
}

__device__ inline float2 up_bias(const UpWeights& up, int expert, int unit) {
  return reinterpret_cast<const float2*>(up.bias + size_t{2} * expert * up.intermediate)[unit];
}

// Returns PairSums that store the results of experts_down() in rows `g` and `g` + 8 of a strip.
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
