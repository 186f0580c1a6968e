// Row counts at which a step changes its kernels, and limits of groups: pairs of a token and one of its
// experts that share a pass over the expert's weights. Needs no GPU: tests/backend/cuda/host/groups_test.cpp.
#pragma once

#include <algorithm>

namespace nibble::cuda {

inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// Steps of up to kFewTokens tokens are bound by memory bandwidth; the kernel table and the draft head choose
// by it. Above, weights are read once per kManyColumns tokens or pairs (pipeline.cuh).
inline constexpr int kFewTokens{16}, kManyColumns{64};
// Most tokens for which kernels that read a norm compute it, and one launch both routes and starts with the
// experts; above, rms_norm computes it. Each CTA reads a norm's rows serially: 8 took 8 us, a launch takes 4.
inline constexpr int kOwnNorms{2};
// Most tokens whose norm the router's launch computes (route/logits.cu): 4 CTAs per token fit on the SMs.
inline constexpr int kRouterNorms{32};
// Columns of a wgmma pass over MXFP4 with enough pairs. With 128 the tensor cores would be 2 % busier, but
// their sums take more registers, and ptxas then makes each product wait for the previous one.
inline constexpr int kMostColumns{96};
// Columns of a wgmma pass for a batch, where few pairs share an expert: the fewest, for the most stages.
inline constexpr int kBatchColumns{8};
// Fewest tokens for which wgmma groups have kManyColumns (kManyTokens) and kMostColumns (kWideTokens).
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Most tokens for which CTAs share the contraction of qkv and project by wgmma (dense/wgmma_split.cu): sums
// of segments go through memory, and grow with the tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Most tokens for which dense products by wgmma use the kernels for batches: more and smaller CTAs.
inline constexpr int kNarrowTokens{255};
// Tokens, or pairs, of a pass for few tokens: n of mma.m16n8k16.
inline constexpr int kMaxColumns{8};

// Most pairs that the kernels that read pairs group themselves: each warp has a lane for each pair.
inline constexpr int kMatchedPairs{32};
// True if readers group a step's pairs themselves: no expert has more than `size` pairs. Groups of pairs that
// are gathered in an image (`in_image`) are in memory, where the gathering kernel reads them.
constexpr bool are_matched(int num_tokens, int experts_per_token, int size, bool in_image) {
  return size == kMaxColumns && !in_image && num_tokens <= size &&
         num_tokens * experts_per_token <= kMatchedPairs;
}

// Most groups of a step, with up to `size` pairs each, for any routing: all groups of an expert but one are
// full. A rank's `num_experts` may be below `experts_per_token`, but a single token has one group per slot.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, std::max(num_experts, experts_per_token) + num_pairs / size);
}

}  // namespace nibble::cuda
