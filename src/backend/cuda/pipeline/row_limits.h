// Numbers of rows at which a step changes its kernels, and limits of groups. A group is the pairs (a token
// and one of its experts) that share a pass over an expert's weights. Needs no GPU.
#pragma once

#include <algorithm>

namespace nibble::cuda {

inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// Steps of up to kFewTokens tokens are bound by memory bandwidth and have kernels of their own. In larger
// steps, weights are read once per kManyColumns tokens or pairs (pipeline.cuh).
inline constexpr int kFewTokens{16}, kManyColumns{64};
// Most tokens for which each kernel computes the norm that it reads, and one launch routes and starts the
// experts. For more tokens rms_norm computes the norm once, because CTAs would read the rows one after
// another: 8 rows took 8 us, the launch of rms_norm takes 4.
inline constexpr int kOwnNorms{2};
// Most tokens whose norm the router's launch computes (route/logits.cu). It has 4 CTAs per token, which must
// all fit on the SMs at once, or some start late.
inline constexpr int kRouterNorms{32};
// Columns of a wgmma pass over MXFP4, given enough pairs. With 128 the tensor cores could be 2 % busier, but
// need more registers for sums, and ptxas then makes each product wait for the previous one.
inline constexpr int kMostColumns{96};
// Columns of a wgmma pass for a batch, in which few pairs share an expert. This is the smallest pass, which
// leaves shared memory for more stages.
inline constexpr int kBatchColumns{8};
// wgmma groups have up to kManyColumns pairs for kManyTokens tokens or more, kMostColumns for kWideTokens.
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Most tokens for which CTAs share the contraction of qkv and project by wgmma (dense/wgmma_split.cu). The
// sums of segments go through memory, which takes longer with more tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Most tokens for which dense products by wgmma use the kernels for batches, with more and smaller items.
// project has about half the rows of qkv: up to 320 tokens, all its items run at the same time (gpt-oss).
inline constexpr int kNarrowTokens{255}, kNarrowProject{320};
// Columns (tokens or pairs) of a pass for few tokens: n of mma.m16n8k16.
inline constexpr int kMaxColumns{8};

// The kernels that read pairs also form groups of them, up to this number of pairs: one per lane of a warp.
inline constexpr int kMatchedPairs{32};
// True if the kernels that read a step's pairs also form groups; no expert then has more than `size` pairs.
// False if pairs are gathered in an image (`in_image`): the gathering kernel reads groups from memory.
constexpr bool are_matched(int num_tokens, int experts_per_token, int size, bool in_image) {
  return size == kMaxColumns && !in_image && num_tokens <= size &&
         num_tokens * experts_per_token <= kMatchedPairs;
}

// Most groups of a step, of up to `size` pairs each, for any routing: at most one group of each expert is not
// full. With a single token every slot is a group, even if a rank has fewer experts (num_experts) than slots.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, std::max(num_experts, experts_per_token) + num_pairs / size);
}

}  // namespace nibble::cuda
