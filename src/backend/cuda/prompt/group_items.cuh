// The items of the experts' products (pipeline.cuh): groups, and blocks of rows of the group's expert. The blocks of a group follow each
// other, so that memory delivers its activations once, and each strip once or, where an expert has several groups, soon again.
#pragma once

#include "backend/cuda/kernels.h"
#include "backend/cuda/pdl.cuh"
#include "backend/cuda/prompt/pipeline.cuh"

namespace nibble::cuda {

// Items that a group's columns are divided into: a group may have more than a shape.
template <typename Shape>
__host__ __device__ constexpr int column_blocks(const Groups& groups) {
  return (groups.size + Shape::kColumns - 1) / Shape::kColumns;
}

// `first_column` is the place of the group's pairs.
template <typename Shape, typename RowOf>
struct GroupItems {
  const Groups& groups;
  const RowOf& row_of;  // the row of the activations of a pair
  int num_row_blocks, num_blocks, num_items;

  __device__ GroupItems(const Groups& all, const Strips& weights, const RowOf& row)
      : groups(all),
        row_of(row),
        num_row_blocks(row_blocks<Shape>(weights)),
        num_blocks(num_row_blocks * column_blocks<Shape>(all)),
        num_items(__ldcg(all.count) * num_blocks) {}
  __device__ int count() const { return num_items; }
  // The last block of a group's columns may be empty.
  __device__ PromptItem at(int index) const {
    const int group = index / num_blocks, block = index % num_blocks,
              first = block / num_row_blocks * Shape::kColumns;
    return {__ldcg(groups.expert + group), block % num_row_blocks * Shape::kStrips,
            group * groups.size + first, min(Shape::kColumns, __ldcg(groups.num_pairs + group) - first)};
  }
  __device__ int pair(const PromptItem& item, int column) const {
    return __ldcg(groups.pairs + item.first_column + column);
  }
  __device__ int row(const PromptItem& item, int column) const { return row_of(pair(item, column)); }
};

// Multiplies the groups' pairs with their experts' strips. begin(expert, strip, g) returns what takes the sums of rows g and
// g + 8 of a strip: take(pair, upper, lower).
template <typename Shape, typename RowOf, typename Begin>
__device__ void multiply_groups(const Timestamps& timestamps, const Strips& weights, const Groups& groups,
                                const typename Shape::Rows& activations, const RowOf& row_of,
                                const Begin& begin) {
  wait_for_predecessor(timestamps);
  let_successor_start();
  const GroupItems<Shape, RowOf> items(groups, weights, row_of);
  multiply_items<Shape>(weights, activations, items, NoCuts(),
                        [&](const PromptItem& item, int strip, int, bool, const auto& sums) {
                          const int g = static_cast<int>(threadIdx.x) % 32 / 4;
                          const int* pairs = groups.pairs + item.first_column + first_column_of_lane<Shape>();
                          const auto take = begin(item.matrix, strip, g);
                          for_each_column<Shape>(item, sums, [&](int i, float upper, float lower) {
                            take(__ldcg(pairs + i), upper, lower);
                          });
                        });
}

// A lane's biases of a gate and its up.
__device__ inline float2 up_bias(const UpWeights& up, int expert, int unit) {
  return reinterpret_cast<const float2*>(up.bias + size_t{2} * expert * up.intermediate)[unit];
}

// Takes the sums of a strip's rows g and g + 8 to the result of experts_down(): take(pair, upper, lower).
__device__ inline auto take_down(const ExpertsDownArgs& args, int expert, int strip, int g) {
  const int row = strip * kStripRows + g;
  const float* bias = args.bias + size_t{1} * expert * args.hidden + row;
  const bool has_upper = row < args.hidden, has_lower = row + 8 < args.hidden;
  const float upper_bias = has_upper ? bias[0] : 0, lower_bias = has_lower ? bias[8] : 0;
  return [=, &args](int pair, float upper, float lower) {
    const float weight = __ldcg(args.groups.weight + pair);
    float* out = args.out + size_t{1} * pair * args.hidden + row;
    if (has_upper) out[0] = weight * (upper + upper_bias);
    if (has_lower) out[8] = weight * (lower + lower_bias);
  };
}

template <typename Shape>
LaunchShape group_shape(const Target& target, const Strips& weights, const Groups& groups, int max_groups) {
  return shape_for_items<Shape>(target,
                                max_groups * column_blocks<Shape>(groups) * row_blocks<Shape>(weights));
}

}  // namespace nibble::cuda
