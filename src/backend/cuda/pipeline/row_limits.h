// The row counts at which a step changes its kernels, and the limits of groups. A group is a set of pairs
// of a token and one of its experts that share a pass over the expert's weights. Needs no GPU:
// tests/backend/cuda/host/groups_test.cpp.
#pragma once

#include <algorithm>

namespace nibble::cuda {

// The most experts of a token, and of a layer.
inline constexpr int kMaxExpertsPerToken{8}, kMaxExperts{128};

// Up to kFewTokens tokens a step is bound by memory bandwidth. For more tokens, weights are read once per
// kManyColumns tokens, or pairs of a token and an expert (pipeline.cuh). The kernel table and the draft head
// choose kernels by kFewTokens.
inline constexpr int kFewTokens{16}, kManyColumns{64};
// Most tokens for which every kernel that reads a norm computes it itself, and for which one launch both
// routes and starts with the experts. For more tokens rms_norm computes the norm once. Every CTA of a kernel
// reads the rows for its norm, one row after another: with 8 rows that took 8 us, and a launch takes 4.
inline constexpr int kOwnNorms{2};
// Most tokens for which the router's launch computes the norm before it (route/logits.cu). The launch has 4
// CTAs per token. If there were more CTAs than multiprocessors, some would start late.
inline constexpr int kRouterNorms{32};
// Columns of a pass over MXFP4 by wgmma (pipeline/image_columns.cuh), if a step has enough pairs. 128 columns
// would keep the tensor cores 2 % busier, but their sums take more registers, and ptxas then makes each
// product wait for the previous one.
inline constexpr int kMostColumns{96};
// Columns of a pass over MXFP4 by wgmma kernels for a batch, in which few pairs share an expert: the fewest
// columns that a product takes, so that more stages fit into shared memory.
inline constexpr int kBatchColumns{8};
// Fewest tokens of a step for which groups have kManyColumns (kManyTokens) and kMostColumns (kWideTokens), by
// wgmma.
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Most tokens for which CTAs share the contraction of qkv and project by wgmma (dense/wgmma_split.cu). The
// sums of segments then go through memory, and their size grows with the tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Most tokens for which dense products by wgmma use the kernels for batches: more and smaller CTAs.
inline constexpr int kNarrowTokens{255};
// Tokens, or pairs, of a pass for few tokens: n of mma.m16n8k16.
inline constexpr int kMaxColumns{8};

// Most pairs for which the kernels that read pairs group them themselves: each warp has a lane for each pair.
inline constexpr int kMatchedPairs{32};
// Returns whether readers group the pairs of a step, whose groups have up to `size` pairs. No expert then has
// more pairs than a group holds. If the pairs are gathered in an image (`in_image`), readers do not group
// them: the kernel that gathers them reads groups from memory.
constexpr bool are_matched(int num_tokens, int experts_per_token, int size, bool in_image) {
  return size == kMaxColumns && !in_image && num_tokens <= size &&
         num_tokens * experts_per_token <= kMatchedPairs;
}

// Returns the most groups that a step of T tokens needs, with up to `size` pairs per group, for any choice of
// K of E experts: of an expert's groups, all but one are full. If E is the number of a rank's own experts, it
// may be less than K. A single token still has K groups, one per slot, whichever rank holds the experts.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, std::max(num_experts, experts_per_token) + num_pairs / size);
}

}  // namespace nibble::cuda
