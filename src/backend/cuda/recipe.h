// The recipe of a step says which launch computes a norm, how activations are laid out, how routing reaches
// the experts, and where the residual stream is. A recipe depends only on row counts, the plan and the ranks,
// so tests need no GPU (tests/backend/cuda/host/recipe_test.cpp). `inspect --kernels --rows` prints a recipe.
#pragma once

#include "backend/cuda/dense/launch.h"
#include "backend/cuda/experts/launch.h"
#include "backend/cuda/plan.h"

namespace nibble::cuda {

enum class NormIn {
  kReader,     // each kernel that reads the norm computes it
  kOwnLaunch,  // rms_norm computes it in a separate launch
  kRouter,     // the router's launch, the first that reads the norm, computes it for all readers
  kAllReduce   // the all-reduce whose sum is normalised also computes the norm
};
// How the router's choice of experts reaches the kernels of the experts.
enum class RoutingBy {
  // One launch, route_and_experts_up(), computes the router's logits, chooses experts and computes
  // experts_up. It writes the choice to the mailbox, from which experts_down reads it.
  kSameLaunch,
  // The router's launch computes only the logits. experts_up chooses the experts, and writes the choice to
  // the mailbox, from which experts_down reads it.
  kMailbox,
  kGroups  // the router's launch chooses experts, and writes groups of pairs to memory
};
// The buffer that holds the residual stream after attention.
enum class StreamIn {
  kX,             // the buffer Workspace::x
  kProjectParts,  // Workspace::project_parts: project's output or, with several ranks, the sum over ranks
  kExpertsOut     // Workspace::experts_out; used if project_parts holds only the rank's own rows
};

struct Sharing {
  bool is_shared{false};  // whether several ranks share the model; an all-reduce then follows each half layer
  // Whether the kernels that sum over ranks can also compute norms (ranks/sum.h). NCCL's sums cannot.
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

  // Where the norm before attention is computed, in the first layer and in all other layers.
  NormIn first_attention_norm, attention_norm;
  // Whether the rank computes attention only for its own rows (Sharing::has_own_sequences). The norm kernel
  // before attention then reads only these rows of the residual stream, and does not write the stream.
  bool gathers_own_rows{false};
  ActivationLayout qkv_activations;       // layout of the norm that qkv reads
  ActivationLayout attended_activations;  // layout of attention's output: bfloat16, as rows or as an image
  bool project_quantises;                 // whether project quantises its input for block-scaled products
  int num_parts;                          // number of parts in which qkv and project store each sum: 1 or 2
  // KV pages that qkv prefetches in full-attention layers: bytes per page (0: no prefetch), pages per row.
  int ahead_page_bytes{0}, num_pages_ahead{0};

  StreamIn stream_after_attention;
  int num_stream_parts;      // parts in which the stream after attention is stored, to be added: 1 or 2
  bool project_adds_stream;  // whether project adds the residual stream; if false, the all-reduce does
  // Whether the kernel that next reads the stream adds the experts' outputs; if false, the all-reduce does.
  bool reader_adds_experts;

  NormIn experts_norm;
  ActivationLayout expert_activations;
  RoutingBy routing;
  int group_size, max_groups;  // largest number of pairs of a group, and of groups of the step

  // Shapes of launches that stream weights and multiply them by few columns. Other kernels have fixed shapes.
  std::optional<DenseLaunch> qkv, project;
  std::optional<ExpertsUpLaunch> experts_up;  // also the shape of route_and_experts_up()
  std::optional<ExpertsDownLaunch> experts_down;

  NormIn attention_norm_of(size_t layer) const { return layer == 0 ? first_attention_norm : attention_norm; }
};

// Returns the recipe of a step. `config`: the config of the rank's share.
StepRecipe recipe(const Plan& plan, const Config& config, const Sharing& sharing, const StepRows& rows);

// The recipe of a launch that computes logits. A step computes its logits in one or several such launches.
struct UnembedRecipe {
  NormIn norm;
  ActivationLayout activations;
  std::optional<DenseLaunch> launch;  // set if the kernel streams weights and multiplies them by few columns
};
// Returns the recipe for the logits of `num_rows` rows. `vocab`: number of rows of lm_head that the rank has.
UnembedRecipe unembed_recipe(const Plan& plan, int vocab, int hidden, int num_rows);

// Describes the recipe in words, for `inspect --kernels --rows`.
std::vector<StepFact> describe(const StepRecipe& recipe, const UnembedRecipe& unembed);

}  // namespace nibble::cuda
