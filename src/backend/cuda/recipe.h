// The recipe of a step: all that its numbers of rows, the kernels of the plan and the ranks decide about how its operations depend on
// each other. Who computes a norm, how activations lie in memory, how the routing reaches the experts, where the residual stream is.
// The forward pass follows it, and `inspect --kernels --rows` prints it. Needs no GPU: tests/backend/cuda/host/recipe_test.cpp.
#pragma once

#include "backend/cuda/plan.h"

namespace nibble::cuda {

// The launch that computes a norm.
enum class NormIn {
  kReader,     // every kernel that reads it, for itself
  kOwnLaunch,  // rms_norm
  kRouter,     // the router's launch, which needs it first
  kAllReduce   // the sum over ranks before it
};
// How the choice of experts reaches their products.
enum class RoutingBy {
  kSameLaunch,  // route_and_experts_up: one launch routes and begins with the experts; experts_down gets its choice by mailbox
  kMailbox,     // experts_up ranks the router's logits and passes the choice on to experts_down by mailbox
  kGroups       // the router's launches leave groups in memory
};
// Where a step's residual stream is after attention.
enum class StreamIn {
  kX,             // Workspace::x
  kProjectParts,  // what project leaves, or the sum over ranks in its place
  kExpertsOut     // the room of the experts' outputs, where project_parts has other rows
};

// How ranks share a model.
struct Sharing {
  bool is_shared{false};  // with other ranks: what a half of a layer leaves is summed over them
  bool sums_can_norm{
      false};  // these sums are kernels (ranks/sum.h), which can compute norms; those of NCCL cannot
  bool has_own_sequences{false};  // a rank attends to its own rows of a step alone (StepShape::num_own_rows)
};

struct StepRows {
  int num_tokens;          // of the step
  int num_attention_rows;  // that this rank attends to: all, or its own
};

struct StepRecipe {
  StepRows rows;

  // The attention half of a layer.
  NormIn first_attention_norm, attention_norm;  // in the first layer, and in the others
  bool gathers_own_rows{false};  // its norm is of the rank's own rows of the stream, which stays as it is
  ActivationLayout attention_activations;  // of qkv and project
  int num_parts;                           // that qkv and project leave of a sum: 1 or 2 (kernels.h)
  int ahead_page_bytes{0},
      num_pages_ahead{0};  // that qkv of a full layer prefetches for attention; 0 bytes: it prefetches none

  // The residual stream between halves.
  StreamIn stream_after_attention;
  int num_stream_parts;      // of it: 1 or 2
  bool project_adds_stream;  // else the sum over ranks does
  bool
      reader_adds_experts;  // who reads the stream next adds the experts' outputs to it; else the sum over ranks does

  // The experts' half of a layer.
  NormIn experts_norm;
  ActivationLayout expert_activations;
  RoutingBy routing;
  int group_size, max_groups;  // pairs of a group, and groups for any routing

  NormIn attention_norm_of(size_t layer) const { return layer == 0 ? first_attention_norm : attention_norm; }
};

// `config`: of the rank.
StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows);

// The same for the logits of so many rows, which are not all of a step at once.
struct UnembedRecipe {
  NormIn norm;
  ActivationLayout activations;
};
UnembedRecipe unembed_recipe(const Plan& plan, int num_rows);

}  // namespace nibble::cuda
