// Groups: pairs of a token and one of its experts that share a pass over the expert's weights. The limits of a pass, and how many
// groups a step may have. Needs no GPU: tests/backend/cuda/host/groups_test.cpp.
#pragma once

#include <algorithm>

namespace nibble::cuda {

// Up to kFewTokens a step is bound by memory, and every kernel that needs a norm computes it. Beyond that, the norm is computed once
// (normalise), and weights are read once for kManyColumns tokens, or pairs of a token and an expert (prefill.cu).
inline constexpr int kFewTokens{16}, kManyColumns{64};
inline constexpr int kMaxColumns{8};  // tokens, or pairs, of a pass for few tokens: n of mma.m16n8k16

// The most pairs of a group.
constexpr int group_size(int num_tokens) { return num_tokens > kFewTokens ? kManyColumns : kMaxColumns; }

// The most groups that a step of so many tokens may need, for any choice of experts: all of an expert's groups are full but one.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, num_experts + num_pairs / group_size(num_tokens));
}

// The same for every step of up to `max_tokens`. It grows with the number of tokens up to kFewTokens, and again from there on.
constexpr int max_num_groups_up_to(int max_tokens, int num_experts, int experts_per_token) {
  return std::max(max_num_groups(max_tokens, num_experts, experts_per_token),
                  max_num_groups(std::min(max_tokens, kFewTokens), num_experts, experts_per_token));
}

}  // namespace nibble::cuda
