// Expected choices of experts, and the groups that routing forms from these choices.
#pragma once

#include <vector>

#include "backend/cuda/layout/strips.h"
#include "backend/cuda/route/args.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/matrix.h"
#include "core/tensors/index_range.h"

namespace nibble::cuda::verify {

// A token's K experts with the largest logits, and the softmax of these logits. Of two experts with equal
// logits, the expert with the lower number comes first.
struct ExpectedRouting {
  std::vector<int> experts;
  std::vector<double> weights, bounds;  // [K]: the experts' weights, and the largest allowed error of each

  // Checks the weight of the expert at index `slot` of the token's choices. The weight must be 0 if this
  // expert is not in `own`.
  void check_weight(Comparison& comparison, int token, ptrdiff_t slot, float actual,
                    const IndexRange& own) const;
};
ExpectedRouting choose(const float* logits, int num_experts, int experts_per_token);

// Returns the shape of a router's matrix, which has short segments (router_strips() in layout/layout_of.h).
inline MatrixShape router_shape(int num_experts, int hidden) {
  return {.rows = num_experts, .cols = hidden, .max_segment_tiles = kRouterSegmentTiles};
}

struct GroupsRead {
  int count;
  std::vector<int> expert, num_pairs, pairs, image_row;
  std::vector<float> weight;
};

class DeviceGroups {
 public:
  DeviceGroups(int num_tokens, int experts_per_token, int max_groups, int size);  // fills with poison
  // Fills the arrays with the groups that route() stores for these choices. `choices`: one entry per token.
  DeviceGroups(const std::vector<ExpectedRouting>& choices, int num_experts, int max_groups, int size);

  // image_pairs() returns the number of rows of an image of pairs that has room for any routing.
  // image_row_of_pair() returns each pair's row in this image; empty if no `choices` were given.
  int image_pairs() const;
  const std::vector<int>& image_row_of_pair() const { return image_row_of_pair_; }

  int size() const { return size_; }
  int max_groups() const { return static_cast<int>(expert_.count()); }
  Groups view() const;
  int* chosen() const { return chosen_.data(); }  // [T, K]: the chosen experts
  GroupsRead read(Comparison& comparison) const;

 private:
  int experts_per_token_, size_;
  DeviceArray<int> count_, expert_, num_pairs_, pairs_, image_row_, chosen_;
  std::vector<int> image_row_of_pair_;
  DeviceArray<float> weight_;
};

class DeviceRoutingMailbox {  // a RoutingMailbox on the GPU
 public:
  // Fills the mailbox as it is before the first step.
  DeviceRoutingMailbox(const Strips& router, int num_tokens, int experts_per_token);
  // Fills the mailbox as the launch that chooses the experts does.
  explicit DeviceRoutingMailbox(const std::vector<ExpectedRouting>& choices);

  RoutingMailbox view() const;
  // Checks the tags of the router's sums. Returns the logits [T, E]. An expert's logit is its bias plus the
  // sums of all segments of its row, which are added in order.
  std::vector<float> read_logits(Comparison& comparison, const Strips& router,
                                 const std::vector<float>& bias) const;
  void check_choices(Comparison& comparison, const std::vector<ExpectedRouting>& expected,
                     const IndexRange& own) const;

 private:
  static constexpr uint32_t kStep{7}, kNumLayers{36}, kLayer{5}, kTag{kStep * kNumLayers + kLayer};

  int num_tokens_;
  DeviceArray<uint64_t> sums_, experts_;
  DeviceArray<float> weights_;
  DeviceArray<uint32_t> step_;
};

}  // namespace nibble::cuda::verify
