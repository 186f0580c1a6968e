// Launch functions of the experts' products. Each kernel waits for the results of earlier kernels itself
// (pdl.cuh). Dimensions: T tokens, H hidden size, E experts of which K are chosen per token, I units of an
// expert. Activations are bfloat16 unless their layout says otherwise; sums are float32.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/route/args.h"

namespace nibble::cuda {

// Weights of gate and up, [E, 2 I, H]. A strip holds the gate rows of 8 of the expert's I units, then the up
// rows of these units.
struct UpWeights {
  Strips weights;
  const float* bias;  // [E, 2 I]: the bias b; gate and up alternate
  int hidden, intermediate;
  float limit;  // swiglu() clamps its gate input to at most `limit`, its linear input to +- `limit`
};

// experts_up() computes gated = swiglu(W[e] normed + b[e]) for each pair of a token and a chosen expert e.
struct ExpertsUpArgs {
  Activations normed;  // [T, H]: the norm of each token
  Groups groups;
  int num_tokens, experts_per_token, max_groups;  // max_groups: largest possible number of groups
  UpWeights up;
  // [T K, I], output, in the layout of `normed`. Plain and block-scaled rows are in the order of pairs, rows
  // of an image (wgmma's layout) in the order of groups.
  Activations gated;
  Activations gathered{};  // [image rows of groups, H], scratch of experts_up_images(): the norm of each pair
  // If `routing` is set, each CTA of experts_up() chooses all tokens' experts from `logits` and groups the
  // pairs itself; of `groups`, it reads only `size`. The first CTA publishes the choice in `routing` for
  // experts_down().
  const float* logits{nullptr};  // [T, E]: the router's logits
  RoutingMailbox routing{};
  int num_experts{0};  // E: experts of all ranks together
  IndexRange own{};    // the experts whose weights this rank holds
};
void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args);

// route_and_experts_up() computes the norm, the router and experts_up() of up to kOwnNorms tokens in one
// launch. Its CTAs wait for each other, so all of them must be resident at once: at most one per SM.
struct RouteAndExpertsUpArgs {
  NormInput norm;  // the residual stream, in the two parts that project() stores
  Strips router;   // [E, H]: weights of the router
  const float* router_bias;
  int num_tokens, experts_per_token;
  IndexRange own;  // the experts whose weights this rank holds
  float* x;        // [T, H], output: the residual stream, summed to one term
  RoutingMailbox routing;
  UpWeights up;
  __nv_bfloat16* gated;  // [T K, I], output
};
void route_and_experts_up(const LaunchContext& gpu, const RouteAndExpertsUpArgs& args);
// Returns whether route_and_experts_up() can run. The launch must have a warp for each segment of the router,
// and all its CTAs must be resident.
bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token);

// experts_down() computes out = weight * (W[e] gated + b[e]) for each pair of a token and a chosen expert e.
// It skips experts that other ranks hold. W is [E, H, I]; the router computed the pair's weight.
struct ExpertsDownArgs {
  Activations gated;       // [T K, I], in the layout that experts_up() writes
  Groups groups;           // the pairs to compute; if `routing` is set, only groups.size is read
  RoutingMailbox routing;  // set if the choice arrives by mailbox: few pairs (are_matched()), or one token
  IndexRange own;          // the experts whose weights this rank holds; read only if `routing` is set
  int num_experts;         // E: experts of all ranks together
  int num_tokens, experts_per_token, max_groups;
  int hidden, intermediate;
  Strips weights;
  const float* bias;  // [E, H]: the bias b of each expert
  float* out;         // [T K, H], output: one row per pair
  // [K]: counters that CTAs increment to learn the order in which they start (TurnShares); zero between
  // launches
  unsigned* turns{nullptr};
};
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args);

// Variants for many tokens, by mma.sync. An expert's weights are read once per kManyColumns pairs.
void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args);
// Variants for many tokens, by wgmma.
void experts_up_images(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_images(const LaunchContext& gpu, const ExpertsDownArgs& args);
// Variants for many tokens, by block-scaled products. The activations determine the format.
void experts_up_blocks(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_blocks(const LaunchContext& gpu, const ExpertsDownArgs& args);

// Returns how many bytes of dynamic shared memory a CTA of the experts' block-scaled kernels needs.
size_t block_shared_bytes(BlockFormat format);

void prepare_experts();
void prepare_route_and_experts_up();
void prepare_prompt_experts();
void prepare_prompt_blocks();
void prepare_image_experts();

}  // namespace nibble::cuda
