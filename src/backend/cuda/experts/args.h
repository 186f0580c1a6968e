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
  const float* bias;  // [E, 2 I], interleaved
  int hidden, intermediate;
  float limit;
};

// gated = swiglu(W[e] normed + b[e])
struct ExpertsUpArgs {
  Activations normed;  // [T, H]
  Groups groups;
  int num_tokens, experts_per_token, max_groups;  // max_groups: grid size
  UpWeights up;
  Activations gated;       // [T K, I], in the layout of `normed`; an image holds the pairs of groups
  Activations gathered{};  // [pairs of groups, H], scratch of experts_up_images(): an image
  // If `routing` is set, experts are not chosen yet (are_matched), and `groups` has only a size: each CTA of
  // experts_up() ranks all tokens' experts by these logits and groups pairs; the first passes the routing on.
  const float* logits{nullptr};  // [T, E]
  RoutingMailbox routing{};
  int num_experts{0};  // E, of all ranks
  IndexRange own{};    // the experts whose weights are here
};
void experts_up(const LaunchContext& gpu, const ExpertsUpArgs& args);

// The norm, the router and experts_up() of up to kOwnNorms tokens in one launch. Its CTAs wait for each
// other, so all must be resident at once: at most one per SM.
struct RouteAndExpertsUpArgs {
  NormInput norm;  // input: the two parts of project()
  Strips router;   // [E, H]
  const float* router_bias;
  int num_tokens, experts_per_token;
  IndexRange own;  // the experts whose weights are here
  float* x;        // [T, H], output: the sum of the two parts
  RoutingMailbox routing;
  UpWeights up;
  __nv_bfloat16* gated;  // [T K, I]
};
void route_and_experts_up(const LaunchContext& gpu, const RouteAndExpertsUpArgs& args);
// Whether route_and_experts_up() can run: CTAs must be enough for the router's segments, and all resident.
bool has_route_and_experts_up(const Target& target, const Strips& router, const Strips& up, int hidden,
                              int experts_per_token);

// out = weight (W[e] gated + b[e]), for pairs whose expert this rank holds.      W [E, H, I]
struct ExpertsDownArgs {
  Activations gated;       // [T K, I], as experts_up() writes it
  Groups groups;           // its lists are read only if `routing` is not set
  RoutingMailbox routing;  // set for few tokens (are_matched), and always for a single one
  IndexRange own;          // the experts whose weights this rank holds, read with `routing`
  int num_experts;         // E, of all ranks
  int num_tokens, experts_per_token, max_groups;
  int hidden, intermediate;
  Strips weights;
  const float* bias;         // [E, H]
  float* out;                // [T K, H]
  unsigned* turns{nullptr};  // [K], 0 before and after: experts_down() counts its CTAs here
};
void experts_down(const LaunchContext& gpu, const ExpertsDownArgs& args);

// The same for many tokens by mma.sync: weights are read once per kManyColumns tokens.
void experts_up_many(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_many(const LaunchContext& gpu, const ExpertsDownArgs& args);
// The same for many tokens by wgmma.
void experts_up_images(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_images(const LaunchContext& gpu, const ExpertsDownArgs& args);
// The same for many tokens by block-scaled products, in the format of the activations.
void experts_up_blocks(const LaunchContext& gpu, const ExpertsUpArgs& args);
void experts_down_blocks(const LaunchContext& gpu, const ExpertsDownArgs& args);

size_t block_shared_bytes(BlockFormat format);  // dynamic shared memory of a CTA of block-scaled products

void prepare_experts();
void prepare_route_and_experts_up();
void prepare_prompt_experts();
void prepare_prompt_blocks();
void prepare_image_experts();

}  // namespace nibble::cuda
