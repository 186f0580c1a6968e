// Row counts at which a step changes its kernels, and limits of groups: pairs of a token and one of its
// experts that share a pass over the expert's weights. Needs no GPU: tests/backend/cuda/host/groups_test.cpp.
#pragma once

#include <algorithm>

namespace nibble::cuda {

inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// Steps of up to kFewTokens tokens are bound by memory bandwidth; the kernel table and the draft head choose
// kernels by it. For more tokens, weights are read once per kManyColumns tokens or pairs (pipeline.cuh).
inline constexpr int kFewTokens{16}, kManyColumns{64};
// Most tokens for which every kernel that reads a norm computes it itself, and one launch both routes and
// starts with the experts; for more, rms_norm computes the norm once. Every CTA reads the rows for its norm
// serially: 8 rows took 8 us, a launch takes 4.
inline constexpr int kOwnNorms{2};
// Most tokens whose norm the router's launch computes (route/logits.cu). It has 4 CTAs per token, which must
// all fit on the SMs at once, or some start late.
inline constexpr int kRouterNorms{32};
// Columns of a wgmma pass over MXFP4 with enough pairs. With 128 the tensor cores would be 2 % busier, but
// their sums take more registers, and ptxas then makes each product wait for the previous one.
inline constexpr int kMostColumns{96};
// Columns of a wgmma pass for a batch, in which few pairs share an expert: the fewest columns that a product
// takes, so that more stages fit into shared memory.
inline constexpr int kBatchColumns{8};
// Fewest tokens for which wgmma groups have kManyColumns (kManyTokens) and kMostColumns (kWideTokens).
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Most tokens for which CTAs share the contraction of qkv and project by wgmma (dense/wgmma_split.cu): sums
// of segments go through memory, and grow with the tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Most tokens for which dense products by wgmma use the kernels for batches: more and smaller CTAs.
inline constexpr int kNarrowTokens{255};
// Columns (tokens or pairs) of a pass for few tokens: n of mma.m16n8k16.
inline constexpr int kMaxColumns{8};

// Most pairs for which the kernels that read pairs also group them: each warp has a lane for each pair.
inline constexpr int kMatchedPairs{32};
// True if the kernels that read a step's pairs also group them; no expert then has more than `size` pairs. If
// pairs are gathered in an image (`in_image`), the gathering kernel reads groups from memory instead.
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
