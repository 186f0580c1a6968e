// Launch functions of the draft head's kernels that handle rows one by one, between the head's matrix
// products. Formulas and names are those of reference/draft_head.h. The inputs of matrix products are
// bfloat16. CUDA code includes this header, so it must compile as C++17.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/pipeline/norm_input.h"

namespace nibble::cuda {

inline constexpr int kNumTaps{3};

// keep_tap() stores a tap: taps[t, tap] = the residual stream of token t after one of three layers of the
// model.
struct KeepTapArgs {
  ResidualInput x;      // [T, H]: the residual stream
  int tap;              // 0 to 2: which of the three layers
  __nv_bfloat16* taps;  // [T, 3, H], output: one launch stores one of the three taps
};
void keep_tap(const LaunchContext& gpu, int num_rows, const KeepTapArgs& args);

// norm_taps() computes taps = norm(taps) in place. The three taps of a row are normalised as one vector.
struct NormTapsArgs {
  __nv_bfloat16* taps;   // [rows, 3 H]: input and output
  const float* weights;  // [3 H]: weights of the norm
  int hidden;
  float eps;
};
void norm_taps(const LaunchContext& gpu, int num_rows, const NormTapsArgs& args);

// place_drafts() finds where draft chains begin, and fills in the outputs `slots`, `kv_slots`, `chain_rows`
// and `starts`.
struct PlaceDraftsArgs {
  const DraftRun* runs;  // [num_runs]: the step's runs (rows of one sequence)
  ChosenTokens choices;
  int num_chains, num_drafts, max_position;  // num_drafts: per chain; max_position: the largest of a draft
  DraftSlot* slots;  // [T], output: for each row, the next token and the chain that begins after it
  // [T], output: each row's position in the head's KV cache, or -1 for a rejected draft of a tree. The
  // pointer is null if the step has no draft trees.
  int32_t* kv_slots;
  // [num_drafts, num_chains], output: position and pages of each draft's row. A position above max_position
  // is lowered to it, and the draft is not used.
  RowInput* chain_rows;
  ChainStart* starts;  // [num_chains], output: where each chain's drafts begin
};
void place_drafts(const LaunchContext& gpu, int num_runs, const PlaceDraftsArgs& args);

// draft_input() computes z = [norm(E[t]), norm(f)], the input of the head's layer, for token t and features
// f.
struct DraftInputArgs {
  // [rows, H]: the features f; for later drafts of a chain, the layer's output g for the previous draft
  ResidualInput features;
  const float* features_norm;             // [H]: weights for f = norm(features); null: f = features
  const __nv_bfloat16* embedding;         // [V, H]: the embedding E, one row per token id of the model
  const float *token_norm, *hidden_norm;  // [H]: weights of norm(E[t]), and of norm(f)
  float eps;
  // [rows]: token t of each row; if null, row n continues chain n, and its token t is in `chosen`
  const DraftSlot* slots;
  const SampleResult* chosen;  // [chains]: the token that each chain drafted last, as an id of the head
  const int* tokens;           // [draft vocabulary]: the model's id for each id of the head
  __nv_bfloat16* z;            // [rows, 2 H], output; null: only chain_z is stored
  // At rows where a chain begins or continues, draft_input() also stores z in `chain_z`, and f (or norm(f),
  // if norm_before_residual) in `residual`.
  bool norm_before_residual;
  __nv_bfloat16* chain_z;  // [chains, 2 H], output: z of the chains' rows
  float* residual;         // [chains, H], output: the residual stream before attention
};
void draft_input(const LaunchContext& gpu, int num_rows, const DraftInputArgs& args);

// draft_gate() computes gated = silu(gate) * up.
struct DraftGateArgs {
  const float* parts;  // [1 or 2 parts, rows, 2 I]: products; a row holds I gates, then I ups
  bool has_rest;       // whether each sum in `parts` is stored in two parts, to be added
  int intermediate;
  __nv_bfloat16* gated;  // [rows, I], output
};
void draft_gate(const LaunchContext& gpu, int num_rows, const DraftGateArgs& args);

void prepare_head_rows();  // call it once before the first launch

}  // namespace nibble::cuda
