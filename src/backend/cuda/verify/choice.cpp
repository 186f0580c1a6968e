#include "backend/cuda/verify/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::cuda::verify {
namespace {

// Poison but for the first ones.
template <typename T>
void put(const DeviceArray<T>& array, const std::vector<T>& from) {
  check(cudaMemcpy(array.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
        "copying groups");
}

}  // namespace

TestChoice choose(const float* logits, int num_experts, int experts_per_token) {
  std::vector<int> order(static_cast<size_t>(num_experts));
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int e) { return logits[e] > -INFINITY ? logits[e] : -INFINITY; };  // of NaN too
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  TestChoice choice;
  choice.experts.assign(order.begin(), order.begin() + experts_per_token);
  const double largest = logits[order[0]];
  double sum = 0;
  for (const int e : choice.experts) {
    choice.weights.push_back(std::exp(double{logits[e]} - largest));
    sum += choice.weights.back();
  }
  // Of the exponential 2 ulp and, for the rounded difference d, d 2^-24; of the sum's additions and the division a rounding each.
  for (size_t k = 0; k < choice.experts.size(); ++k) {
    choice.weights[k] /= sum;
    const double difference = largest - double{logits[choice.experts[k]]};
    choice.bounds.push_back((difference + 8 + experts_per_token) * 0x1p-23 * choice.weights[k] + 0x1p-120);
  }
  return choice;
}

int max_groups_of(int num_tokens, int num_experts, int experts_per_token) {
  const int pairs = num_tokens * experts_per_token;
  return std::min(pairs, num_experts + pairs / kGroupPairs);
}

DeviceGroups::DeviceGroups(int num_tokens, int experts_per_token, int max_groups)
    : experts_per_token_(experts_per_token),
      count_(1),
      expert_(static_cast<size_t>(max_groups)),
      num_pairs_(static_cast<size_t>(max_groups)),
      pairs_(static_cast<size_t>(max_groups * kGroupPairs)),
      weight_(static_cast<size_t>(num_tokens * experts_per_token)) {}

DeviceGroups::DeviceGroups(const std::vector<TestChoice>& choices, int num_experts, int max_groups)
    : DeviceGroups(static_cast<int>(choices.size()), static_cast<int>(choices.front().experts.size()),
                   max_groups) {
  std::vector<int> expert, num_pairs, pairs;
  std::vector<float> weight;
  for (const TestChoice& choice : choices)
    for (const double w : choice.weights) weight.push_back(static_cast<float>(w));
  for (int e = 0; e < num_experts; ++e) {
    bool is_open = false;  // a group of this expert that has room
    for (size_t t = 0; t < choices.size(); ++t)
      for (int k = 0; k < experts_per_token_; ++k) {
        if (choices[t].experts[static_cast<size_t>(k)] != e) continue;
        if (!is_open) {
          expert.push_back(e);
          num_pairs.push_back(0);
          pairs.resize(pairs.size() + kGroupPairs, -1);
        }
        pairs[pairs.size() - kGroupPairs + static_cast<size_t>(num_pairs.back()++)] =
            static_cast<int>(t) * experts_per_token_ + k;
        is_open = num_pairs.back() < kGroupPairs;
      }
  }
  put(count_, {static_cast<int>(expert.size())});
  put(expert_, expert);
  put(num_pairs_, num_pairs);
  put(pairs_, pairs);
  put(weight_, weight);
}

Groups DeviceGroups::view(const float* logits, int num_experts) const {
  return {logits,         num_experts,       experts_per_token_, count_.data(),
          expert_.data(), num_pairs_.data(), pairs_.data(),      weight_.data()};
}

GroupsRead DeviceGroups::read(Comparison& comparison) const {
  return {count_.read(comparison, "group count")[0], expert_.read(comparison, "group experts"),
          num_pairs_.read(comparison, "group sizes"), pairs_.read(comparison, "group pairs"),
          weight_.read(comparison, "weights")};
}

}  // namespace nibble::cuda::verify
