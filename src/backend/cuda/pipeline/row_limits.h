// Numbers of rows at which a step switches kernels, and limits of groups. A group is the pairs (a token and
// one of its experts) that share a pass over an expert's weights. Needs no GPU.
#pragma once

#include <algorithm>

namespace nibble::cuda {

inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// Steps of up to kFewTokens tokens are bound by memory bandwidth and have their own kernels. Larger steps
// read the weights once per kManyColumns tokens or pairs (pipeline.cuh).
inline constexpr int kFewTokens{16}, kManyColumns{64};
// Up to kOwnNorms tokens, each kernel computes the norm that it reads, and one launch routes and starts the
// experts. Larger steps launch rms_norm once, because every CTA would read the rows one after another: 8 rows
// took 8 us, a launch of rms_norm takes 4.
inline constexpr int kOwnNorms{2};
// Up to kRouterNorms tokens, the router's launch computes the norm (route/logits.cu). It has 4 CTAs per
// token. All of them must fit on the SMs at once; otherwise some start late.
inline constexpr int kRouterNorms{32};
// Columns of a wgmma pass over MXFP4 if there are enough pairs. With 128 columns the tensor cores could be 2
// % busier, but the sums need more registers, and ptxas then makes each product wait for the previous one.
inline constexpr int kMostColumns{96};
// Columns of a wgmma pass for batches, in which few pairs share an expert. It is the smallest pass that wgmma
// allows, and leaves shared memory for more stages.
inline constexpr int kBatchColumns{8};
// From kManyTokens tokens on, wgmma groups have up to kManyColumns pairs; from kWideTokens on, kMostColumns.
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Up to kSplitTokens tokens, CTAs share the contraction of qkv and project by wgmma (dense/wgmma_split.cu).
// The sums of segments go through memory, which takes longer with more tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Up to kNarrowTokens tokens, dense products by wgmma use the kernels for batches, with more and smaller
// items. project has half the rows of qkv: up to kNarrowProject tokens, all its items run at once (gpt-oss).
inline constexpr int kNarrowTokens{255}, kNarrowProject{320};
// Columns (tokens or pairs) of a pass for few tokens. It is n of mma.m16n8k16.
inline constexpr int kMaxColumns{8};

// Up to this number of pairs, the kernels that read pairs also form groups: one pair per lane of a warp.
inline constexpr int kMatchedPairs{32};
// Whether the kernels that read a step's pairs also form groups; no expert then has more than `size` pairs.
// If pairs are gathered in an image (`in_image`), the gathering kernel reads groups from memory instead.
constexpr bool are_matched(int num_tokens, int experts_per_token, int size, bool in_image) {
  return size == kMaxColumns && !in_image && num_tokens <= size &&
         num_tokens * experts_per_token <= kMatchedPairs;
}

// Most groups (of up to `size` pairs) that any routing of a step can give: each expert has at most one group
// that is not full. With a single token every pair is a group, even if a rank has fewer experts than pairs.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, std::max(num_experts, experts_per_token) + num_pairs / size);
}

}  // namespace nibble::cuda
