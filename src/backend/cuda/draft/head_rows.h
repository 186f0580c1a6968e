// Launch functions of a draft head's row-wise parts, between its products. Formulas and names:
// reference/draft_head.h. Activations that are multiplied are bfloat16. C++17, for device code.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/input/draft_slots.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/input/sample_input.h"
#include "backend/cuda/pipeline/norm_input.h"

namespace nibble::cuda {

inline constexpr int kNumTaps{3};

// taps[t, tap] = the residual stream after a layer.
struct KeepTapArgs {
  ResidualInput x;  // [T, H]: the residual stream
  int tap;
  __nv_bfloat16* taps;  // [T, 3, H], output: the stream after three layers, of which one launch stores one
};
void keep_tap(const LaunchContext& gpu, int num_rows, const KeepTapArgs& args);

// taps = norm(taps), in place, with a row's three taps as one vector.
struct NormTapsArgs {
  __nv_bfloat16* taps;   // [rows, 3 H]: input and output
  const float* weights;  // [3 H]: weights of the norm
  int hidden;
  float eps;
};
void norm_taps(const LaunchContext& gpu, int num_rows, const NormTapsArgs& args);

// Finds where the draft chains of a step begin, and fills in `slots`, `kv_slots`, `chain_rows` and `starts`.
struct PlaceDraftsArgs {
  const DraftRun* runs;  // [num_runs]: rows and outputs of each run
  ChosenTokens choices;
  int num_chains, num_drafts, max_position;
  DraftSlot* slots;  // [T], output: each row's next token and chain
  // [T], output: each row's position in the head's cache; -1: a rejected draft of a tree. null: no trees.
  int32_t* kv_slots;
  // [num_drafts, num_chains], output. Positions are clamped to max_position; drafts beyond it are not used.
  RowInput* chain_rows;
  ChainStart* starts;  // [num_chains], output: where the drafts of each chain begin
};
void place_drafts(const LaunchContext& gpu, int num_runs, const PlaceDraftsArgs& args);

// z = [norm(E[t]), norm(f)]: the input of the head's layer, for token t and features f.
struct DraftInputArgs {
  ResidualInput features;          // [rows, H]: f or, for the later slots of a chain, g of the slot before
  const float* features_norm;      // [H]: f = norm(features) with these weights; null: f = features
  const __nv_bfloat16* embedding;  // [V, H]: E
  const float *token_norm, *hidden_norm;  // [H]: weights of norm(E[t]) and of norm(f)
  float eps;
  const DraftSlot* slots;      // [rows]: t of each slot; null: row n continues chain n after `chosen`
  const SampleResult* chosen;  // [chains]: the tokens drafted last, as ids of the head
  const int* tokens;           // [draft vocabulary]: the model's id of each of the head's tokens
  __nv_bfloat16* z;            // [rows, 2 H], output, or null
  // Rows of chains also go to chain_z, their residual to `residual`: norm(f) if set here, otherwise f.
  bool norm_before_residual;
  __nv_bfloat16* chain_z;  // [chains, 2 H], output: z of the chains' rows
  float* residual;         // [chains, H], output: the residual stream before attention
};
void draft_input(const LaunchContext& gpu, int num_rows, const DraftInputArgs& args);

// gated = silu(gate) * up.
struct DraftGateArgs {
  const float* parts;  // [1 or 2, rows, 2 I]: terms of each sum; a row holds I gates, then I ups
  bool has_rest;       // true: `parts` has two terms per sum, which are added
  int intermediate;
  __nv_bfloat16* gated;  // [rows, I], output
};
void draft_gate(const LaunchContext& gpu, int num_rows, const DraftGateArgs& args);

void prepare_head_rows();  // call once before the first launch

}  // namespace nibble::cuda
