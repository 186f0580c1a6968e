// The activations between operations: float32, allocated once for the largest step. Rows marked * are in
// split order and zero-padded to whole blocks (isa/kernels.h).
#pragma once

#include "backend/cpu/cpu_options.h"
#include "backend/cpu/isa/kernels.h"
#include "core/buffer.h"
#include "core/view.h"
#include "model/config.h"

namespace nibble::cpu {

// Number of token rows multiplied by a panel of weights together: they stay in L2 next to the panel (20b:
// 0.25 MB in int8).
inline constexpr int kTokenBlock{64};
inline constexpr int kOutputRows{24};  // output rows whose logits are computed together
// Maximum number of attention pieces whose partial softmaxes wait to be merged: enough for one row at
// position 131,071.
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
  // [T, H / 32], for experts [T K, H / 32]; this and the next two: int8 activations only.
  View<Q8Block, 2> normed_q8;
  View<Q8Block, 2> attended_q8;  // [T, Nq D / 32]
  View<Q8Block, 2> gated_q8;     // [T K, I / 32]
  View<float, 3> down_panels;    // [thread, T K, kMaxPanelRows]: outputs of down projections
  View<float, 2> logits;         // [kOutputRows, V]

  Buffer storage;
};

// `int8`: experts and all other matrices in strips take int8 activations.
Activations make_activations(const Config& config, int max_rows, int num_threads, bool int8);
size_t activations_bytes(const Config& config, int max_rows, int num_threads, bool int8);

}  // namespace nibble::cpu
