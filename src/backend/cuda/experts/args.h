// Launch functions of the experts' products. Each kernel waits for those before it (pdl.cuh). Dimensions: T
// tokens, H hidden size, E experts of which K are chosen, I units of an expert. Activations are bfloat16
// unless their layout says otherwise, sums float32.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {

// [E, 2 I, H]: a strip is 8 gate rows and their 8 up rows.
struct UpWeights {
  Strips weights;
  const float* bias;  // [E, 2 I]: b, in which gate and up alternate
  int hidden, intermediate;
  float limit;
};

// gated = swiglu(W[e] normed + b[e])
struct ExpertsUpArgs {
  Activations normed;  // [T, H]: the norm of each token
  Groups groups;
  int num_tokens, experts_per_token, max_groups;  // max_groups: the grid has CTAs for this number of groups
  UpWeights up;
  Activations gated;       // [T K, I], output, in the layout of `normed`; rows of an image are in group order
  Activations gathered{};  // [image rows of groups, H], scratch of experts_up_images(): norms per pair
  // If `routing` is set, each CTA of experts_up() chooses all tokens' experts by `logits` and groups
  // the pairs itself, using only the size of `groups`; the first CTA publishes the choice in `routing`.
  const float* logits{nullptr};  // [T, E]: the router's logits
  RoutingMailbox routing{};
  int num_experts{0};  // E: experts of all ranks together
  IndexRange own{};    // the experts whose weights this rank holds
};
void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args);

// The norm, the router and experts_up() of up to kOwnNorms tokens in one launch. Its CTAs wait for each
// other, so all must be resident at once: at most one per SM.
struct RouteAndExpertsUpArgs {
  NormInput norm;  // the residual stream, in the two parts that project() leaves
  Strips router;   // [E, H]: weights of the router
  const float* router_bias;
  int num_tokens, experts_per_token;
  IndexRange own;  // the experts whose weights this rank holds
  float* x;        // [T, H], output: the residual stream, as the sum of its two parts
  RoutingMailbox routing;
  UpWeights up;
  __nv_bfloat16* gated;  // [T K, I], output
};
void route_and_experts_up(const LaunchContext& gpu, const RouteAndExpertsUpArgs& args);
// Whether route_and_experts_up() can run: it needs a warp per segment of the router, and all CTAs resident.
bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token);

// out = weight (W[e] gated + b[e]), for pairs whose expert this rank holds.      W [E, H, I]
struct ExpertsDownArgs {
  Activations gated;       // [T K, I], in the layout in which experts_up() writes it
  Groups groups;           // the pairs to compute; if `routing` is set, only groups.size is read
  RoutingMailbox routing;  // set for few tokens (are_matched) and always for one
  IndexRange own;          // the experts whose weights this rank holds, read with `routing`
  int num_experts;         // E: experts of all ranks together
  int num_tokens, experts_per_token, max_groups;
  int hidden, intermediate;
  Strips weights;
  const float* bias;         // [E, H]: b
  float* out;                // [T K, H], output: one row per pair
  unsigned* turns{nullptr};  // [K]: next numbers for CTAs of experts_down(), by start; 0 before and after
};
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args);

// For many tokens by mma.sync: weights are read once per kManyColumns tokens.
void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args);
// For many tokens by wgmma.
void experts_up_images(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_images(const LaunchContext& gpu, const ExpertsDownArgs& args);
// For many tokens by block-scaled products, in the format of the activations.
void experts_up_blocks(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_blocks(const LaunchContext& gpu, const ExpertsDownArgs& args);

size_t block_shared_bytes(BlockFormat format);  // dynamic shared memory of a CTA of block-scaled products

void prepare_experts();
void prepare_route_and_experts_up();
void prepare_prompt_experts();
void prepare_prompt_blocks();
void prepare_image_experts();

}  // namespace nibble::cuda
