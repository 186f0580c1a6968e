// The recipe of a step: which launch computes a norm, how activations are laid out, how the routing reaches
// the experts, and where the residual stream is. The host derives it from row counts, the plan's kernels and
// the ranks (tests/backend/cuda/host/recipe_test.cpp needs no GPU). `inspect --kernels --rows` prints it.
#pragma once

#include "backend/cuda/dense/launch.h"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/plan.h"

namespace nibble::cuda {

enum class NormIn {
  kReader,     // every kernel that reads the norm computes it
  kOwnLaunch,  // rms_norm computes it in a separate launch
  kRouter,     // the router's launch, the norm's first reader, computes it for all readers
  kAllReduce   // the previous all-reduce computes it
};
// How the router's choice of experts reaches the products of the experts.
enum class RoutingBy {
  kSameLaunch,  // route_and_experts_up chooses and multiplies; experts_down reads the mailbox
  kMailbox,     // experts_up chooses by the router's logits; experts_down reads the mailbox
  kGroups       // launches of the router choose, and write groups to memory
};
// The buffer that holds the residual stream after attention.
enum class StreamIn {
  kX,             // the buffer Workspace::x
  kProjectParts,  // Workspace::project_parts: the output of project, or its sum over ranks
  kExpertsOut     // Workspace::experts_out, because project_parts has only the rank's own rows
};

struct Sharing {
  bool is_shared{false};  // ranks divide attention and experts, and add up the results of both
  // Whether the sums are kernels that can compute norms (ranks/sum.h) instead of NCCL's.
  bool sums_can_norm{false};
  // Whether each rank computes attention only for its own rows of a step (StepShape::num_own_rows).
  bool has_own_sequences{false};
};

struct StepRows {
  int num_tokens;
  int num_attention_rows;  // rows whose attention this rank computes
};

struct StepRecipe {
  StepRows rows;

  NormIn first_attention_norm, attention_norm;  // norms of the first layer; of all others
  // Whether the norm gathers the rank's own rows from the residual stream, which stays unchanged.
  bool gathers_own_rows{false};
  ActivationLayout attention_activations;  // layout that qkv and project read
  int num_parts;                           // terms per sum from qkv and project: 1 or 2 (dense/args.h)
  // KV pages that qkv of a full-attention layer prefetches: bytes per page (0: none), and pages per row.
  int ahead_page_bytes{0}, num_pages_ahead{0};

  StreamIn stream_after_attention;
  int num_stream_parts;      // terms per element of the stream after attention: 1 or 2
  bool project_adds_stream;  // project adds the residual stream; false: the all-reduce adds it
  // Whether the stream's next reader adds the experts' outputs; if false, the all-reduce does.
  bool reader_adds_experts;

  NormIn experts_norm;
  ActivationLayout expert_activations;
  RoutingBy routing;
  int group_size, max_groups;  // most pairs per group; most groups for any routing

  // Shapes of launches that stream weights and multiply them by few columns. Other kernels have fixed shapes.
  std::optional<DenseLaunch> qkv, project;
  std::optional<ExpertsUpLaunch> experts_up;  // set also if the launch is route_and_experts_up
  std::optional<ExpertsDownLaunch> experts_down;

  NormIn attention_norm_of(size_t layer) const { return layer == 0 ? first_attention_norm : attention_norm; }
};

// `config`: that of the rank's share.
StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows);

// Recipe for the logits of `num_rows` rows. A step may compute its logits in several such batches.
struct UnembedRecipe {
  NormIn norm;
  ActivationLayout activations;
  std::optional<DenseLaunch> launch;  // set if weights are streamed and multiplied by few columns
};
// `vocab`: number of rows in the rank's share of lm_head.
UnembedRecipe unembed_recipe(const Plan& plan, int vocab, int hidden, int num_rows);

}  // namespace nibble::cuda
