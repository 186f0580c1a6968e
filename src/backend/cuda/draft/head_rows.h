// Launch functions of the row-wise parts of a draft head, between its products. C++17, for device code.
// Formulas and names are those of reference/draft_head.h. Activations that are multiplied are bfloat16.
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
  ResidualInput x;  // [T, H]
  int tap;
  __nv_bfloat16* taps;  // [T, 3, H]
};
void keep_tap(const LaunchContext& gpu, int num_rows, const KeepTapArgs& args);

// taps = norm(taps), in place, with a row's three outputs as one vector.
struct NormTapsArgs {
  __nv_bfloat16* taps;   // [rows, 3 H]
  const float* weights;  // [3 H]
  int hidden;
  float eps;
};
void norm_taps(const LaunchContext& gpu, int num_rows, const NormTapsArgs& args);

// Finds where the chains of a step begin, and fills the slots of its rows and the rows of the chains.
struct PlaceDraftsArgs {
  const DraftRun* runs;  // [num_runs]
  ChosenTokens choices;
  int num_chains, num_drafts, max_position;
  DraftSlot* slots;  // [T]
  // [T]: the slot of each row in the head's cache, which is its position; -1 for a rejected draft of a tree.
  // null: the step has no trees, so the slot of every row is its position.
  int32_t* kv_slots;
  // [num_drafts, num_chains]. Positions are clamped to max_position, since drafts beyond it are not used.
  RowInput* chain_rows;
  ChainStart* starts;  // [num_chains]
};
void place_drafts(const LaunchContext& gpu, int num_runs, const PlaceDraftsArgs& args);

// z = [norm(E[t]), norm(f)] of slots.
struct DraftInputArgs {
  ResidualInput features;          // [rows, H]: f, or g of the previous slot
  const float* features_norm;      // null: f = features; otherwise f = norm(features) with these weights
  const __nv_bfloat16* embedding;  // [V, H]
  const float *token_norm, *hidden_norm;
  float eps;
  // The slots of the rows. null: row n continues chain n, after its draft in `chosen`.
  const DraftSlot* slots;
  const SampleResult* chosen;  // token ids are the head's own
  const int* tokens;           // [draft vocabulary]: token ids of the model
  __nv_bfloat16* z;            // [rows, 2 H], or null
  // For rows of the chains: z, and the residual, which is f or norm(f).
  bool norm_before_residual;
  __nv_bfloat16* chain_z;  // [chains, 2 H]
  float* residual;         // [chains, H]
};
void draft_input(const LaunchContext& gpu, int num_rows, const DraftInputArgs& args);

// gated = silu(gate) * up.
struct DraftGateArgs {
  const float* parts;  // [1 or 2, rows, 2 I]: gate, then up
  bool has_rest;       // whether `parts` has two partial sums to add
  int intermediate;
  __nv_bfloat16* gated;  // [rows, I]
};
void draft_gate(const LaunchContext& gpu, int num_rows, const DraftGateArgs& args);

// Called once before the first launch.
void prepare_head_rows();

}  // namespace nibble::cuda
