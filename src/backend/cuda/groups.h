// A group is pairs of a token and one of its experts that share a pass over the expert's weights. A pass has so many columns, and a step
// so many groups at most. Needs no GPU: tests/backend/cuda/host/groups_test.cpp.
#pragma once

#include <algorithm>

namespace nibble::cuda {

// Up to kFewTokens a step is bound by memory. Beyond that weights are read once for kManyColumns tokens, or pairs of a token and an expert
// (prompt/). Only the kernel table decides by this number.
inline constexpr int kFewTokens{16}, kManyColumns{64};
// Up to so many tokens, each kernel that needs a norm computes it, and one launch routes them and begins with their experts; beyond, rms_norm computes it once. All CTAs of a kernel read the rows
// for it, in turn: with 8 rows that took 8 us, and a launch takes 4.
inline constexpr int kOwnNorms{2};
// Up to so many, the router's launch computes the norm in front of it (decode/router.cu): its CTAs are 4 for each token, and with more of them
// than multiprocessors some would come late.
inline constexpr int kRouterNorms{32};
// Columns of a pass of MXFP4 by wgmma (prompt/image_columns.cuh), where a step has pairs enough. With 128, 2 % more of the tensor cores would
// be busy; but sums then take so many registers that ptxas lets each product wait for the one before.
inline constexpr int kMostColumns{96};
// Columns of such a pass for a batch, where few pairs share an expert: as few as a product takes, so that more stages fit into shared memory.
inline constexpr int kBatchColumns{8};
// From so many tokens on, groups of a step by wgmma have kManyColumns, and kMostColumns.
inline constexpr int kManyTokens{129}, kWideTokens{1024};
// Up to so many, CTAs share the contraction of its qkv and project (prompt/split_dense.cu): the sums of segments, which then go through
// memory, grow with the tokens.
inline constexpr int kSplitTokens{kManyColumns};
// Up to so many, its dense products are for batches: more and smaller CTAs.
inline constexpr int kNarrowTokens{255};
inline constexpr int kMaxColumns{8};  // tokens, or pairs, of a pass for few tokens: n of mma.m16n8k16

// So few pairs are grouped by their readers, each warp for itself: a lane for each pair.
inline constexpr int kMatchedPairs{32};
// Says whether those of a step are, whose groups hold `size` pairs. No expert then has more pairs than a group holds. Pairs that are gathered in
// an image, `in_image`, are not: who copies them reads groups.
constexpr bool are_matched(int num_tokens, int experts_per_token, int size, bool in_image) {
  return size == kMaxColumns && !in_image && num_tokens <= size &&
         num_tokens * experts_per_token <= kMatchedPairs;
}

// The most groups that a step of T tokens may need, if a group holds `size` pairs, for any choice of K of E experts: all of an expert's
// groups are full but one. Where E are those of a rank, fewer than K perhaps, a single token still has K: its slots, whoever has their experts.
constexpr int max_num_groups(int num_tokens, int num_experts, int experts_per_token, int size) {
  const int num_pairs = num_tokens * experts_per_token;
  return std::min(num_pairs, std::max(num_experts, experts_per_token) + num_pairs / size);
}

}  // namespace nibble::cuda
