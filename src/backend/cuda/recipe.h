// The recipe of a step: which launch computes a norm, how activations lie in memory, how the routing reaches
// the experts, and where the residual stream is. Derived on the host from row counts, the plan's kernels and
// the ranks (tests/backend/cuda/host/recipe_test.cpp needs no GPU). Printed by `inspect --kernels --rows`.
#pragma once

#include "backend/cuda/dense/launch.h"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/plan.h"

namespace nibble::cuda {

enum class NormIn {
  kReader,     // every kernel that reads the norm computes it itself
  kOwnLaunch,  // rms_norm computes it, in a launch of its own
  kRouter,     // the router's launch, the first that reads the norm, computes it for all readers
  kAllReduce   // the all-reduce before the norm computes it
};
// How the choice of experts gets from the router to the experts' products.
enum class RoutingBy {
  kSameLaunch,  // route_and_experts_up chooses and multiplies; experts_down reads the mailbox
  kMailbox,     // experts_up chooses by the router's logits; experts_down reads the mailbox
  kGroups       // the router's launches choose, and write groups to memory
};
// Where a step's residual stream is after attention.
enum class StreamIn {
  kX,             // the buffer Workspace::x
  kProjectParts,  // Workspace::project_parts: the output of project, or its sum over ranks
  kExpertsOut     // Workspace::experts_out, where project_parts holds only the rank's own rows
};

struct Sharing {
  bool is_shared{false};  // attention and experts are divided between ranks, which add up the results of both
  // Whether the sums are kernels that can compute norms (ranks/sum.h), not NCCL's.
  bool sums_can_norm{false};
  // Whether each rank computes attention only for its own rows of a step (StepShape::num_own_rows).
  bool has_own_sequences{false};
};

struct StepRows {
  int num_tokens;
  int num_attention_rows;  // number of rows for which this rank computes attention
};

struct StepRecipe {
  StepRows rows;

  NormIn first_attention_norm, attention_norm;  // in the first layer, and in all others
  // Whether the norm gathers the rank's own rows from the residual stream, which stays unchanged.
  bool gathers_own_rows{false};
  ActivationLayout attention_activations;  // layout that qkv and project read
  int num_parts;                           // terms per sum that qkv and project leave: 1 or 2 (dense/args.h)
  // KV pages that qkv of a full-attention layer prefetches: bytes per page (0: none), pages per row.
  int ahead_page_bytes{0}, num_pages_ahead{0};

  StreamIn stream_after_attention;
  int num_stream_parts;      // terms per element of the stream after attention: 1 or 2
  bool project_adds_stream;  // project adds the residual stream; false: the all-reduce does
  // Whether the next reader of the stream adds the experts' outputs; otherwise the all-reduce does.
  bool reader_adds_experts;

  NormIn experts_norm;
  ActivationLayout expert_activations;
  RoutingBy routing;
  int group_size, max_groups;  // most pairs per group, and most groups that any routing can have

  // Shapes of launches that stream weights and multiply them by few columns; other kernels have fixed shapes.
  std::optional<DenseLaunch> qkv, project;
  std::optional<ExpertsUpLaunch> experts_up;  // also set if the launch is route_and_experts_up
  std::optional<ExpertsDownLaunch> experts_down;

  NormIn attention_norm_of(size_t layer) const { return layer == 0 ? first_attention_norm : attention_norm; }
};

// `config`: of the rank's share.
StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows);

// Recipe for the logits of `num_rows` rows; a step may compute its logits in several such batches.
struct UnembedRecipe {
  NormIn norm;
  ActivationLayout activations;
  std::optional<DenseLaunch> launch;  // if weights are streamed and multiplied by few columns
};
// `vocab`: rows of the rank's share of lm_head.
UnembedRecipe unembed_recipe(const Plan& plan, int vocab, int hidden, int num_rows);

}  // namespace nibble::cuda
