// Launch functions of routing: the choice of experts for each token. Each kernel waits for those before it
// (pdl.cuh). Dimensions: T tokens, H hidden size, E experts of which K are chosen.
#pragma once

#include <cstdint>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/activations.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "core/index_range.h"

namespace nibble::cuda {

// Pairs of a token and an expert, grouped by expert, up to `size` per group. Number of a pair: token * K +
// slot. If each rank holds some of the experts, it chooses among all but computes only its own, which it
// numbers from 0. A pair of another rank's expert is in no group and has weight 0.
struct Groups {
  int size;                 // most pairs per group: the columns of a pass of experts_up() and experts_down()
  int* count;               // number of groups
  int* expert;              // [groups]: the group's expert, numbered among those of this rank
  int* num_pairs;           // [groups]: number of pairs in the group
  int* pairs;               // [groups, size]: numbers of the pairs
  float* weight;            // [T, K]: factor of each pair's output
  int* image_row{nullptr};  // [groups]: first row of the group in images of pairs, a multiple of 8
};

// Finds the K largest of W normed + b, and their softmax.
struct RouteArgs {
  int hidden;
  Strips weights;  // [E, H]: W
  const float* bias;
  int num_tokens, experts_per_token;
  IndexRange own;      // the experts whose weights this rank holds
  Activations normed;  // [T, H]: the norm of each token
  float* logits;       // [T, E], output: W normed + b
  // [T, K], scratch: the chosen experts, numbered among those of this rank; negative: another rank's.
  int* chosen;
  int* rank;         // [T, K], scratch: index of each pair among all pairs of its expert
  unsigned* ticket;  // counts finished CTAs; zero before and after every launch
  Groups groups;
  // If norm.weights is set, route_batch() computes the norm and stores it in `normed`, and the stream in `x`.
  NormInput norm{};
  float* x{nullptr};  // [T, H], output: the residual stream
};
// Computes the logits. Unless the step has few pairs (are_matched()), also calls rank_experts(); with few
// pairs, experts_up() chooses the experts.
void route_batch(const LaunchContext& gpu, const RouteArgs& args);
// Chooses the experts from the logits, and forms groups.
void rank_experts(const LaunchContext& gpu, const RouteArgs& args);
// For many tokens: logits_X() computes the logits, and route_X() also calls rank_experts().
void logits_many(const LaunchContext& gpu, const RouteArgs& args);
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void route_many(const LaunchContext& gpu, const RouteArgs& args);
void route_wgmma(const LaunchContext& gpu, const RouteArgs& args);

// Mailboxes through which CTAs pass on the routing of few tokens (are_matched()): among the CTAs of
// route_and_experts_up(), and from it or experts_up() to the next launch, experts_down(). A word is a tag
// (step and layer) above 32 bits of data. Readers poll for the current tag, so no word is reset. This takes
// half the time of ending one kernel and starting the next.
struct RoutingMailbox {
  uint64_t* sums{nullptr};     // [T, segments of all router strips, 16 rows]; for T <= kOwnNorms
  uint64_t* experts{nullptr};  // [T, K]: chosen experts, numbered among those of all ranks
  float* weights{nullptr};     // [T, K]: factors of the experts' outputs; untagged, stored before `experts`
  const uint32_t* step{nullptr};
  uint32_t num_layers{0}, layer{0};  // tag: *step num_layers + layer
};

void prepare_router();
void prepare_rank_experts();

}  // namespace nibble::cuda
