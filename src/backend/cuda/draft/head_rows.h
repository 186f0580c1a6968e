// Launch functions of a draft head's row-wise parts, which come between its products. Formulas and names:
// reference/draft_head.h. Activations to be multiplied are bfloat16. C++17, for device code.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/pipeline/norm_input.h"

namespace nibble::cuda {

inline constexpr int kNumTaps{3};

// keep_tap() stores taps[t, tap] = the residual stream of token t after a layer.
struct KeepTapArgs {
  ResidualInput x;  // [T, H]: the residual stream
  int tap;
  __nv_bfloat16* taps;  // [T, 3, H], output: the stream after three layers; one launch stores one of them
};
void keep_tap(const LaunchContext& gpu, int num_rows, const KeepTapArgs& args);

// norm_taps() computes taps = norm(taps) in place. A row's three taps are normalised as one vector.
struct NormTapsArgs {
  __nv_bfloat16* taps;   // [rows, 3 H]: input and output
  const float* weights;  // [3 H]: weights of the norm
  int hidden;
  float eps;
};
void norm_taps(const LaunchContext& gpu, int num_rows, const NormTapsArgs& args);

// place_drafts() finds where draft chains begin, and fills in `slots`, `kv_slots`, `chain_rows` and `starts`.
struct PlaceDraftsArgs {
  const DraftRun* runs;  // [num_runs]: rows and outputs of each run
  ChosenTokens choices;
  int num_chains, num_drafts, max_position;
  DraftSlot* slots;  // [T], output: each row's next token and chain
  // [T], output: each row's position in the head's cache; -1: a rejected draft of a tree. null: no trees.
  int32_t* kv_slots;
  // [num_drafts, num_chains], output. Positions are limited to max_position; drafts beyond it are not used.
  RowInput* chain_rows;
  ChainStart* starts;  // [num_chains], output: where each chain's drafts begin
};
void place_drafts(const LaunchContext& gpu, int num_runs, const PlaceDraftsArgs& args);

// draft_input() computes z = [norm(E[t]), norm(f)] for token t and features f: the input of the head's layer.
struct DraftInputArgs {
  ResidualInput features;                 // [rows, H]: f; for later slots of a chain, g of the previous slot
  const float* features_norm;             // [H]: weights with which f = norm(features); null: f = features
  const __nv_bfloat16* embedding;         // [V, H]: E
  const float *token_norm, *hidden_norm;  // [H]: weights of norm(E[t]), and of norm(f)
  float eps;
  const DraftSlot* slots;      // [rows]: t of each slot; null: row n continues chain n after `chosen`
  const SampleResult* chosen;  // [chains]: the tokens drafted last, as token ids of the head
  const int* tokens;           // [draft vocabulary]: the model's id for each token id of the head
  __nv_bfloat16* z;            // [rows, 2 H], output, or null
  // Rows of chains also write z to chain_z, and f (if this is set: norm(f)) to `residual`.
  bool norm_before_residual;
  __nv_bfloat16* chain_z;  // [chains, 2 H], output: z of the chains' rows
  float* residual;         // [chains, H], output: the residual stream before attention
};
void draft_input(const LaunchContext& gpu, int num_rows, const DraftInputArgs& args);

// draft_gate() computes gated = silu(gate) * up.
struct DraftGateArgs {
  const float* parts;  // [1 or 2, rows, 2 I]: terms of each sum; a row holds I gates, then I ups
  bool has_rest;       // whether `parts` has two terms per sum to add
  int intermediate;
  __nv_bfloat16* gated;  // [rows, I], output
};
void draft_gate(const LaunchContext& gpu, int num_rows, const DraftGateArgs& args);

void prepare_head_rows();  // call it once before the first launch

}  // namespace nibble::cuda
