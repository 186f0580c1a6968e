// Launch functions of routing: the choice of experts for each token. Each kernel waits for the results of
// earlier kernels itself (pdl.cuh). Dimensions: T tokens, H hidden size, E experts of which K are chosen per
// token.
#pragma once

#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "core/tensors/index_range.h"

namespace nibble::cuda {

// Pairs of a token and a chosen expert, grouped by expert, up to `size` per group. A pair's number is
// token * K + slot, where slot is the expert's index among those chosen for the token. If each rank holds
// only some of the experts, every rank chooses among all experts, but groups only the pairs of its own
// experts. Each rank numbers its own experts from 0. A pair with another rank's expert is in no group and has
// weight 0.
struct Groups {
  int size;                 // largest number of pairs per group; a group's weights are read once
  int* count;               // number of groups
  int* expert;              // [groups]: the group's expert, as an index among this rank's experts
  int* num_pairs;           // [groups]: number of pairs in each group
  int* pairs;               // [groups, size]: numbers (token * K + slot) of each group's pairs
  float* weight;            // [T, K]: factor of each pair's output
  int* image_row{nullptr};  // [groups]: each group's first row in an image (wgmma's layout), a multiple of 8
};

// Arguments of routing: for each token, logits = W normed + b; the experts with the K largest logits are
// chosen, and the softmax of these K logits gives their weights.
struct RouteArgs {
  int hidden;
  Strips weights;  // [E, H]: W
  const float* bias;
  int num_tokens, experts_per_token;
  IndexRange own;      // the experts whose weights this rank holds
  Activations normed;  // [T, H]: norm(x) of each token
  float* logits;       // [T, E], output: W normed + b
  // [T, K], scratch: index of each chosen expert among this rank's experts; negative if another rank holds
  // it.
  int* chosen;
  int* rank;         // [T, K], scratch: index of each pair among its expert's pairs
  unsigned* ticket;  // number of finished CTAs of rank_experts(); zero between launches
  Groups groups;
  // If norm.weights is set, route_batch() also computes norm(x): it stores norm(x) in `normed` and the
  // residual stream in `x`.
  NormInput norm{};
  float* x{nullptr};  // [T, H], output: the residual stream
};
// route_batch() computes the logits of a batch. Unless the step has few pairs (are_matched()), it also calls
// rank_experts(); with few pairs, experts_up() chooses the experts.
void route_batch(const LaunchContext& gpu, const RouteArgs& args);
// rank_experts() chooses the experts by their logits, and groups the pairs.
void rank_experts(const LaunchContext& gpu, const RouteArgs& args);
// Variants of route_batch() for many tokens, by mma.sync (_many) and by wgmma. logits_X() computes the
// logits; route_X() then also calls rank_experts().
void logits_many(const LaunchContext& gpu, const RouteArgs& args);
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void route_many(const LaunchContext& gpu, const RouteArgs& args);
void route_wgmma(const LaunchContext& gpu, const RouteArgs& args);

// Mailboxes that pass on the routing of few tokens (are_matched()): among the CTAs of route_and_experts_up(),
// and from route_and_experts_up() or experts_up() to the next launch, experts_down(). The upper half of a
// word is a tag (step and layer), the lower half is data. Readers poll for the current tag, so words need no
// reset. Passing data by mailbox takes half the time of ending one kernel and starting the next.
struct RoutingMailbox {
  uint64_t* sums{nullptr};     // [T, segments of all strips, 16 rows]: router sums; only if T <= kOwnNorms
  uint64_t* experts{nullptr};  // [T, K]: chosen experts, indices among the experts of all ranks
  float* weights{nullptr};     // [T, K]: each pair's factor, without tag: readers wait for the launch's end
  const uint32_t* step{nullptr};
  uint32_t num_layers{0}, layer{0};  // the tag is (*step) * num_layers + layer
};

void prepare_router();
void prepare_rank_experts();

}  // namespace nibble::cuda
