// Activations of the largest step, in float32. T: rows of the step; model/config.h has the other letters.
// Dimensions marked * are in split order, zero-padded to whole blocks of 32 elements (isa/kernels.h).
#pragma once

#include "backend/cpu/cpu_options.h"
#include "backend/cpu/isa/kernels.h"
#include "core/tensors/buffer.h"
#include "core/tensors/view.h"
#include "model/config.h"

namespace nibble::cpu {

// Number of rows that a work item multiplies by its panel of weights at a time. As int8 (20b: 0.25 MB), the
// activations of these rows stay in L2.
inline constexpr int kTokenBlock{64};
inline constexpr int kOutputRows{24};  // maximum number of output rows whose logits are computed together
// Maximum number of partial softmaxes that are stored for merging; enough for one row at position 131,071.
inline constexpr int kParts{256};

struct Activations {
  View<float, 2> x;               // [T, H]: the residual stream
  View<float, 2> normed;          // [T, H*]: the residual stream after the norm
  View<float, 2> cosines, sines;  // [T, D/2]: rotation of each row
  View<float, 3> q;               // [T, Nq, D*]: rotated queries
  View<float, 3> parts;           // [kParts, Nq, 2 + D*]: partial softmaxes of attention
  View<float, 2> attended;        // [T, (Nq D)*]: output of attention
  View<float, 2> router_logits;   // [T, E]: logits of the router
  View<int, 2> chosen;            // [T, K]: indices of the chosen experts
  View<float, 2> chosen_weights;  // [T, K]: weights of the chosen experts in the sum
  View<float, 2> gated;           // [T K, I*]: output of swiglu, for experts with float activations only
  // normed_q8, attended_q8 and gated_q8 are used only with int8 activations. normed_q8: the normed rows,
  // [T, H / 32] or, for experts, [T K, H / 32].
  View<Q8Block, 2> normed_q8;
  View<Q8Block, 2> attended_q8;  // [T, Nq D / 32]: output of attention, quantised to int8
  View<Q8Block, 2> gated_q8;     // [T K, I / 32]: output of swiglu, quantised to int8
  View<float, 3> down_panels;    // [thread, T K, kMaxPanelRows]: outputs of down projections
  View<float, 3> low_rank;       // [T, kMatricesAtOnce, rank]: A x of adapters (dense/adapters.h)
  View<float, 2> logits;         // [kOutputRows, V]: logits of kOutputRows output rows at a time

  Buffer storage;
};

// The types of activations for which make_activations() reserves memory. `int8`: whether some matrices are
// packed in strips (packed_matrix.h), and take int8 activations.
struct ActivationKinds {
  bool int8{false};
  bool float_experts{false};  // whether some experts are not in strips, and take float activations
  int adapter_rank{0};        // the largest rank of the adapters of requests; 0: none
};
Activations make_activations(const Config& config, int max_rows, int num_threads,
                             const ActivationKinds& kinds);
size_t activations_bytes(const Config& config, int max_rows, int num_threads, const ActivationKinds& kinds);

}  // namespace nibble::cpu
