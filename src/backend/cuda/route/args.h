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

// Pairs of a token and an expert, grouped by expert, up to `size` per group; pair = token K + slot. If ranks
// hold whole experts (model/shares/share.h), each chooses among all but computes only its own: matrices and
// groups number these from 0, and a pair of another rank's expert is in no group and has weight 0.
struct Groups {
  int size;                 // columns of a pass of experts_up() and experts_down()
  int* count;               // number of groups
  int* expert;              // [groups], numbered among the rank's own
  int* num_pairs;           // [groups]
  int* pairs;               // [groups, size]
  float* weight;            // [T, K], indexed by pair
  int* image_row{nullptr};  // [groups]: first row in images of pairs, a multiple of 8
};

// Finds the K largest of W normed + b, and their softmax.
struct RouteArgs {
  int hidden;
  Strips weights;  // [E, H]
  const float* bias;
  int num_tokens, experts_per_token;
  IndexRange own;      // the experts whose weights are here
  Activations normed;  // [T, H]
  float* logits;       // [T, E]
  // [T, K], scratch: experts, numbered among the rank's own; negative: another rank's.
  int* chosen;
  int* rank;         // [T, K], scratch: index of a pair among its expert's pairs
  unsigned* ticket;  // zero before and after every launch
  Groups groups;
  // If norm.weights is set, route_batch() writes the norm to `normed`, and project()'s summed parts to `x`.
  NormInput norm{};
  float* x{nullptr};  // [T, H]
};
// Only computes the logits if a step has few pairs (are_matched): experts_up() then chooses the experts.
void route_batch(const LaunchContext& gpu, const RouteArgs& args);
// Chooses the experts by logits already computed, and forms groups.
void rank_experts(const LaunchContext& gpu, const RouteArgs& args);
// For many tokens: logits_X() computes the logits, and route_X() also calls rank_experts().
void logits_many(const LaunchContext& gpu, const RouteArgs& args);
void logits_wgmma(const LaunchContext& gpu, const RouteArgs& args);
void route_many(const LaunchContext& gpu, const RouteArgs& args);
void route_wgmma(const LaunchContext& gpu, const RouteArgs& args);

// Mailboxes through which CTAs pass on the routing of few tokens (are_matched()): those of
// route_and_experts_up() to each other, and those of it or experts_up() to the next launch, experts_down(). A
// word has a tag, the number of step and layer, above 32 bits of payload. Readers poll for the current tag,
// so no word is reset. This takes half the time of ending one kernel and starting the next.
struct RoutingMailbox {
  uint64_t* sums{nullptr};     // [T, segments of the router's strips, 16], for T <= kOwnNorms
  uint64_t* experts{nullptr};  // [T, K], numbered among those of all ranks
  float* weights{nullptr};     // [T, K]
  const uint32_t* step{nullptr};
  uint32_t num_layers{0}, layer{0};  // tag: *step num_layers + layer
};

void prepare_router();
void prepare_rank_experts();

}  // namespace nibble::cuda
