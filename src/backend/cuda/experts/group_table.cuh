// The groups of a step, in the form that the experts' kernels for few tokens use. A group is an expert and up
// to 8 pairs, each of a token and this expert.
#pragma once

#include "backend/cuda/route/args.h"

namespace nibble::cuda {

// An expert and its pairs. The pairs are given as the list `pairs`; as the bits of `matched` (bit n: pair n
// of the step); or, if `pairs` is null and `matched` is 0, as the single pair `slot`, which is the expert's
// index among those chosen for the step's only token.
struct Group {
  int expert, count;
  const int* pairs;
  unsigned matched;
  int slot;

  __device__ int pair(int column) const {
    if (pairs) return __ldcg(pairs + column);
    if (matched == 0) return slot;
    unsigned rest = matched;
    for (int n = 0; n < column; ++n) rest &= rest - 1;
    return __ffs(static_cast<int>(rest)) - 1;
  }
};

// The groups of a step. The first 32 are loaded together, one per lane. If each were loaded only when it is
// needed, every group would cost a wait that is as long as the streaming of a strip. If the step has few
// pairs (are_matched()), this class groups them itself, one pair per lane: the first lane whose pair has an
// expert then holds that expert's group.
class GroupTable {
 public:
  __device__ GroupTable(const Groups& groups, int max_groups) : groups_(groups) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    index_ = lane;
    if (lane < max_groups) {
      expert_ = __ldcg(groups.expert + lane);
      pairs_ = static_cast<unsigned>(__ldcg(groups.num_pairs + lane));
    }
    count_ = __ldcg(groups.count);
  }
  // Groups the pairs (of a token and an expert) of a step with few pairs (are_matched()). Lane n calls
  // expert_of(n) to get the expert of pair n.
  template <typename ExpertOf>
  __device__ GroupTable(const Groups& groups, int num_pairs, const ExpertOf& expert_of) : groups_(groups) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    match(lane < num_pairs ? expert_of(lane) : -1 - lane);
  }
  __device__ int count() const { return count_; }
  // Whole warps must call expert() and group().
  __device__ int expert(int index) const {
    return index < 32 ? __shfl_sync(~0u, expert_, lane_of(index)) : __ldcg(groups_.expert + index);
  }
  __device__ Group group(int index) const {
    const unsigned pairs = index < 32 ? __shfl_sync(~0u, pairs_, lane_of(index))
                                      : static_cast<unsigned>(__ldcg(groups_.num_pairs + index));
    if (is_matched_) return {expert(index), __popc(pairs), nullptr, pairs, 0};
    return {expert(index), static_cast<int>(pairs), groups_.pairs + index * groups_.size, 0, 0};
  }

 private:
  // Groups one pair per lane. `expert`: the pair's expert; negative if the lane has no pair, or if another
  // rank holds the expert.
  __device__ void match(int expert) {
    is_matched_ = true;
    expert_ = expert;
    pairs_ = __match_any_sync(~0u, expert);
    const unsigned before = (1u << threadIdx.x % 32) - 1;
    const bool is_first = expert >= 0 && (pairs_ & before) == 0;
    const unsigned first = __ballot_sync(~0u, is_first);
    index_ = is_first ? __popc(first & before) : -1;
    count_ = __popc(first);
  }
  __device__ int lane_of(int index) const {
    return __ffs(static_cast<int>(__ballot_sync(~0u, index_ == index))) - 1;
  }

  const Groups& groups_;
  int expert_{0}, index_{-1}, count_{0};  // expert and index (-1: none) of the lane's group; number of groups
  bool is_matched_{false};
  // If is_matched_, a mask of the pairs in the lane's group (bit n: pair n of the step); otherwise the number
  // of pairs in that group.
  unsigned pairs_{0};
};

}  // namespace nibble::cuda
