// Launch functions of what a draft head computes row by row, between its products: C++17, for device code. Formulas and names are those of
// reference/draft_head.h. Activations that are multiplied are bfloat16.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/draft/slots.h"
#include "backend/cuda/kernels.h"

namespace nibble::cuda {

inline constexpr int kNumTaps{3};

// taps[t, tap] = the residual stream behind a layer.
struct KeepTapArgs {
  ResidualInput x;  // [T, H]
  int tap;
  __nv_bfloat16* taps;  // [T, 3, H]
};
void keep_tap(const LaunchContext& gpu, int num_rows, const KeepTapArgs& args);

// taps = norm(taps), a row's three outputs as one vector, in place.
struct NormTapsArgs {
  __nv_bfloat16* taps;   // [rows, 3 H]
  const float* weights;  // [3 H]
  int hidden;
  float eps;
};
void norm_taps(const LaunchContext& gpu, int num_rows, const NormTapsArgs& args);

// Finds where the chains of a step begin, and fills in the slots of its rows and the rows of the chains.
struct PlaceDraftsArgs {
  const DraftRun* runs;  // [num_runs]
  DraftChoices choices;
  int num_chains, num_drafts, max_position;
  DraftSlot* slots;  // [T]
  // [T]: the slot of each row in the head's cache, its position; -1 for a draft of a tree that is wrong. null: there are no trees, and all
  // rows have theirs.
  int32_t* kv_slots;
  RowInput*
      chain_rows;  // [num_drafts, num_chains]; positions beyond max_position become that: nobody needs their drafts
  ChainStart* starts;  // [num_chains]
};
void place_drafts(const LaunchContext& gpu, int num_runs, const PlaceDraftsArgs& args);

// z = [norm(E[t]), norm(f)] of slots.
struct DraftInputArgs {
  ResidualInput features;          // [rows, H]: f, or g of the slot before
  const float* features_norm;      // or null; else f is the norm of `features` by these weights
  const __nv_bfloat16* embedding;  // [V, H]
  const float *token_norm, *hidden_norm;
  float eps;
  // The slots of the rows; null: row n is in chain n, behind the draft that `chosen` has there.
  const DraftSlot* slots;
  const SampleResult* chosen;  // a draft's id is the head's own
  const int* tokens;           // [draft vocabulary]: the model's ids
  __nv_bfloat16* z;            // [rows, 2 H], or null
  // Rows of the chains: z, and the residual, which is f or norm(f).
  bool norm_before_residual;
  __nv_bfloat16* chain_z;  // [chains, 2 H]
  float* residual;         // [chains, H]
};
void draft_input(const LaunchContext& gpu, int num_rows, const DraftInputArgs& args);

// gated = silu(gate) up.
struct DraftGateArgs {
  const float* parts;  // [1 or 2, rows, 2 I]: gate, then up
  bool has_rest;       // it is in two parts
  int intermediate;
  __nv_bfloat16* gated;  // [rows, I]
};
void draft_gate(const LaunchContext& gpu, int num_rows, const DraftGateArgs& args);

// Called once before the first launch.
void prepare_head_rows();

}  // namespace nibble::cuda
