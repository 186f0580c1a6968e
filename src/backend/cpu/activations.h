// What the operations hand to each other, float32, in memory taken once: room for the most rows a step may have. Rows
// marked * are in split order and filled up with zeros to whole blocks (isa/kernels.h).
#pragma once

#include "backend/cpu/isa/kernels.h"
#include "backend/cpu_tuning.h"
#include "core/buffer.h"
#include "core/view.h"
#include "model/config.h"

namespace nibble::cpu {

inline constexpr int kTokenBlock{
    64};  // rows that pass by a panel of weights together: what stays in L2 beside it (20b: 0.25 MB in int8)
inline constexpr int kOutputRows{24};  // whose logits are there at once
inline constexpr int kParts{256};  // pieces of rows that wait to be added: of one row up to position 131,071

struct Activations {
  View<float, 2> x;               // [T, H]: the residual stream
  View<float, 2> normed;          // [T, H*]
  View<float, 2> cosines, sines;  // [T, D/2]: of the rows' positions
  View<float, 3> q;               // [T, Nq, D*]
  View<float, 3> parts;           // [kParts, Nq, 2 + D*]: attention's sums over pieces of rows
  View<float, 2> attended;        // [T, (Nq D)*]
  View<float, 2> router_logits;   // [T, E]
  View<int, 2> chosen;            // [T, K]: experts
  View<float, 2> chosen_weights;  // [T, K]
  View<float, 2> gated;           // [T K, I*]: between the two halves of an expert; with float activations
  View<Q8Block, 2> normed_q8;    // [T, H / 32], for experts [T K, H / 32]; with int8 activations, these three
  View<Q8Block, 2> attended_q8;  // [T, Nq D / 32]
  View<Q8Block, 2> gated_q8;     // [T K, I / 32]
  View<float, 3> down_panels;    // [thread, T K, kMaxPanelRows]: of the second half
  View<float, 2> logits;         // [kOutputRows, V]

  Buffer storage;
};

// `int8`: experts, and what else is in strips, take activations in int8.
Activations make_activations(const Config& config, int max_rows, int num_threads, bool int8);
size_t activations_bytes(const Config& config, int max_rows, int num_threads, bool int8);

}  // namespace nibble::cpu
