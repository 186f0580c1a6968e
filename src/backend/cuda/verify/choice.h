// Which experts a token goes to, and the groups that routing leaves.
#pragma once

#include <vector>

#include "backend/cuda/kernels.h"
#include "backend/cuda/verify/device_array.h"

namespace nibble::cuda::verify {

inline constexpr int kGroupPairs{8};

// The K largest logits, ties to the lower expert, and the softmax over them in double precision.
struct TestChoice {
  std::vector<int> experts;
  std::vector<double> weights, bounds;  // how far float32 weights may be
};
TestChoice choose(const float* logits, int num_experts, int experts_per_token);

// The most groups that there can be: each expert's last one may be part-filled.
int max_groups_of(int num_tokens, int num_experts, int experts_per_token);

struct GroupsRead {
  int count;
  std::vector<int> expert, num_pairs, pairs;
  std::vector<float> weight;
};

class DeviceGroups {
 public:
  DeviceGroups(int num_tokens, int experts_per_token, int max_groups);  // poisoned
  // As route() leaves them for these choices of all tokens.
  DeviceGroups(const std::vector<TestChoice>& choices, int num_experts, int max_groups);

  Groups view(const float* logits, int num_experts) const;
  GroupsRead read(Comparison& comparison) const;

 private:
  int experts_per_token_;
  DeviceArray<int> count_, expert_, num_pairs_, pairs_;
  DeviceArray<float> weight_;
};

}  // namespace nibble::cuda::verify
