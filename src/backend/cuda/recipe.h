// The recipe of a step: how its operations depend on each other, which follows from its numbers of rows, the
// kernels of the plan and the ranks. It says which launch computes a norm, how activations lie in memory, how
// the routing reaches the experts, and where the residual stream is. The forward pass follows it, and
// `inspect --kernels --rows` prints it. Needs no GPU: tests/backend/cuda/host/recipe_test.cpp.
#pragma once

#include "backend/cuda/decode/launch_shapes.h"
#include "backend/cuda/plan.h"

namespace nibble::cuda {

// The launch that computes a norm.
enum class NormIn {
  kReader,     // every kernel that reads the norm, for itself
  kOwnLaunch,  // rms_norm
  kRouter,     // the router's launch, the first that reads it
  kAllReduce   // the sum over ranks before it
};
// How the choice of experts reaches their products.
enum class RoutingBy {
  kSameLaunch,  // one launch does both (route_and_experts_up); experts_down reads the mailbox
  kMailbox,     // experts_up ranks the router's logits itself; experts_down reads the mailbox
  kGroups       // the router's launches write groups to memory
};
// Where a step's residual stream is after attention.
enum class StreamIn {
  kX,             // Workspace::x
  kProjectParts,  // project's output buffer: its result, or the sum over ranks
  kExpertsOut     // the experts' output buffer, if project_parts holds other rows
};

// How ranks share a model.
struct Sharing {
  bool is_shared{false};  // by several ranks: the results of each half of a layer are summed over them
  // The sums are kernels (ranks/sum.h), which can compute norms; NCCL's sums cannot.
  bool sums_can_norm{false};
  // Each rank computes attention only for its own rows of a step (StepShape::num_own_rows).
  bool has_own_sequences{false};
};

struct StepRows {
  int num_tokens;          // of the step
  int num_attention_rows;  // for which this rank computes attention: all, or its own
};

struct StepRecipe {
  StepRows rows;

  // The attention half of a layer.
  NormIn first_attention_norm, attention_norm;  // in the first layer, and in all others
  // The norm is of the rank's own rows of the residual stream, which itself stays unchanged.
  bool gathers_own_rows{false};
  ActivationLayout attention_activations;  // read by qkv and project
  int num_parts;                           // parts of each sum that qkv and project leave: 1 or 2 (kernels.h)
  // What qkv of a full-attention layer prefetches for attention: bytes per page, 0 if nothing, and pages per
  // row.
  int ahead_page_bytes{0}, num_pages_ahead{0};

  // The residual stream between halves.
  StreamIn stream_after_attention;
  int num_stream_parts;      // of the stream after attention: 1 or 2
  bool project_adds_stream;  // otherwise the sum over ranks does
  // The next reader of the stream adds the experts' outputs to it; otherwise the sum over ranks does.
  bool reader_adds_experts;

  // The experts' half of a layer.
  NormIn experts_norm;
  ActivationLayout expert_activations;
  RoutingBy routing;
  int group_size, max_groups;  // pairs per group, and groups for any routing

  // The shapes of the launches that stream weights past few columns; others have one shape each.
  std::optional<DenseLaunch> qkv, project;
  std::optional<ExpertsUpLaunch> experts_up;  // also where route_and_experts_up begins with them
  std::optional<ExpertsDownLaunch> experts_down;

  NormIn attention_norm_of(size_t layer) const { return layer == 0 ? first_attention_norm : attention_norm; }
};

// `config`: the rank's.
StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows);

// The same for the logits of `num_rows` rows. A step may compute its logits in several such batches.
struct UnembedRecipe {
  NormIn norm;
  ActivationLayout activations;
};
UnembedRecipe unembed_recipe(const Plan& plan, int num_rows);

}  // namespace nibble::cuda
