// Numbers of tokens at which a step switches kernels, and the largest sizes and numbers of groups. A group is
// the pairs (a token and one of its experts) that share a pass over an expert's weights. This header has no
// device code, so that tests without a GPU can include it.
#pragma once

#include <algorithm>

namespace nibble::cuda {

inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// Steps of up to kFewTokens tokens are bound by memory bandwidth and have their own kernels. In most kernels
// for larger steps (pipeline.cuh), kManyColumns columns share one reading of the weights. A column is a token
// or, in the experts, a pair of a token and an expert.
inline constexpr int kFewTokens{16}, kManyColumns{64};
// In steps of up to kOwnNorms tokens, each kernel that reads norm(x) computes it, and one launch computes
// both the router and experts_up. Larger steps launch rms_norm, which takes 4 us. Without it, every CTA would
// read all rows, one after another, which took 8 us for 8 rows.
inline constexpr int kOwnNorms{2};
// Up to kRouterNorms tokens, the router's launch computes norm(x) (route/logits.cu). With 128 experts, that
// launch has 4 CTAs per token, so 128 CTAs for 32 tokens. With more tokens, not all CTAs would fit on the 132
// SMs of an H100 at once, and some would start late.
inline constexpr int kRouterNorms{32};
// Largest number of columns of a wgmma pass over MXFP4 weights. With 128 columns the tensor cores could be
// 2 % busier, but the sums need more registers, and ptxas then makes each wgmma wait for the previous one.
inline constexpr int kMostColumns{96};
// Number of columns of the experts' passes for batches, in which few pairs share an expert. 8 is the smallest
// n of wgmma, and n of mma.sync; a small number leaves shared memory for more stages.
inline constexpr int kBatchColumns{8};
// The experts' wgmma kernels form groups of up to kBatchColumns pairs for steps below kManyTokens tokens, of
// up to kManyColumns pairs for steps below kWideTokens tokens, and of up to kMostColumns pairs for larger
// steps.
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Up to kRouterTokens tokens, Hopper's router divides each sum among warps (route_batch()). With more tokens,
// route_wgmma() has enough items (blocks of rows and tokens, one per CTA at a time) to keep all SMs busy.
inline constexpr int kRouterTokens{384};
// Up to kSplitTokens tokens, the wgmma kernels of qkv and project divide the contraction among CTAs
// (dense/wgmma_split.cu). The sums of segments go through memory, which takes longer with more tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Up to kNarrowTokens tokens, qkv on Hopper is computed by the kernel for batches, qkv_narrow(), which has
// more and smaller items. For project_narrow() the limit is kNarrowProject: project has about half the rows
// of qkv in gpt-oss, and up to kNarrowProject tokens all items of project_narrow() run at once.
inline constexpr int kNarrowTokens{255}, kNarrowProject{320};
// Largest number of columns (tokens or pairs) of a pass for few tokens: n of mma.m16n8k16.
inline constexpr int kMaxColumns{8};

// Largest number of pairs (of a token and an expert) in a step with which the kernels that multiply the pairs
// can also form the groups: a warp groups the pairs, one per lane.
inline constexpr int kMatchedPairs{32};
// Returns whether the kernels that multiply a step's pairs also form the groups. If so, no expert has more
// than `size` pairs, and each chosen expert has one group. `in_image`: whether a separate kernel, which reads
// the groups from memory, gathers the pairs' activations in an image.
constexpr bool are_matched(int num_tokens, int experts_per_token, int size, bool in_image) {
  return size == kMaxColumns && !in_image && num_tokens <= size &&
         num_tokens * experts_per_token <= kMatchedPairs;
}

// Returns the largest number of groups (of up to `size` pairs) that any routing of a step can give: each
// expert has at most one group that is not full. For a single token, returns experts_per_token, even if the
// rank has fewer experts.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, std::max(num_experts, experts_per_token) + num_pairs / size);
}

}  // namespace nibble::cuda
