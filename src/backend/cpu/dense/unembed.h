// LM head: logits[o] = Wu rms_norm(x)[t], where t is the o-th output row. Wu is not tied to the embedding.
// Bytes: Wu (gpt-oss: 1.16 GB, a third of a decoded token's bytes) at most once per kOutputRows output rows.
#pragma once

#include <span>

#include "backend/cpu/machine.h"
#include "backend/cpu/packed_matrix.h"
#include "core/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct UnembedArgs {
  const Machine& machine;
  View<const float, 2> x;        // [T, H]
  std::span<const int> outputs;  // rows of x; at most kOutputRows
  const Vector& final_norm;      // [H]
  const Matrix& unembedding;     // [V, H]
  const PackedMatrix* packed;    // the unembedding in strips, for int8 activations; or null
  float rms_eps;
  View<float, 2> normed;       // [at least the outputs, H*], scratch
  View<Q8Block, 2> normed_q8;  // [at least the outputs, H / 32], scratch for int8 activations
  View<float, 2> logits;       // [at least the outputs, V]
};
void unembed(const UnembedArgs& args);

}  // namespace nibble::cpu
