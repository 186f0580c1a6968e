// The activations between operations: float32, allocated once for the largest step. Rows marked * are in
// split order, zero-padded to whole blocks of 32 elements (isa/kernels.h).
#pragma once

#include "backend/cpu/cpu_options.h"
#include "backend/cpu/isa/kernels.h"
#include "core/buffer.h"
#include "core/view.h"
#include "model/config.h"

namespace nibble::cpu {

// Token rows that a work item multiplies with its panel of weights: as int8 they (20b: 0.25 MB) stay in L2.
inline constexpr int kTokenBlock{64};
inline constexpr int kOutputRows{24};  // output rows whose logits are computed together
// Pieces of attention whose partial softmaxes can wait to be merged: enough for one row at position 131,071.
inline constexpr int kParts{256};

struct Activations {
  View<float, 2> x;               // [T, H]: the residual stream
  View<float, 2> normed;          // [T, H*]
  View<float, 2> cosines, sines;  // [T, D/2]: for the rows' positions
  View<float, 3> q;               // [T, Nq, D*]
  View<float, 3> parts;           // [kParts, Nq, 2 + D*]: partial softmaxes of attention
  View<float, 2> attended;        // [T, (Nq D)*]
  View<float, 2> router_logits;   // [T, E]
  View<int, 2> chosen;            // [T, K]: experts
  View<float, 2> chosen_weights;  // [T, K]
  View<float, 2> gated;           // [T K, I*]: an expert's inner activations, if activations are float
  // [T, H / 32], for experts [T K, H / 32]. The three Q8Block views are used with int8 activations only.
  View<Q8Block, 2> normed_q8;
  View<Q8Block, 2> attended_q8;  // [T, Nq D / 32]
  View<Q8Block, 2> gated_q8;     // [T K, I / 32]
  View<float, 3> down_panels;    // [thread, T K, kMaxPanelRows]: outputs of down projections
  View<float, 2> logits;         // [kOutputRows, V]

  Buffer storage;
};

// `int8`: experts and all other matrices in strips (packed_matrix.h) take int8 activations.
Activations make_activations(const Config& config, int max_rows, int num_threads, bool int8);
size_t activations_bytes(const Config& config, int max_rows, int num_threads, bool int8);

}  // namespace nibble::cpu
