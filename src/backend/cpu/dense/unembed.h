// LM head: logits[o] = Wu rms_norm(x)[t], where t is the o-th output row. Wu is not tied to the embedding and
// has 1.16 GB (20b: a third of the bytes that are read to decode a token). It is read at most once per
// kOutputRows rows.
#pragma once

#include <span>

#include "backend/cpu/dense/adapters.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/packed_matrix.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct UnembedArgs {
  const Machine& machine;
  View<const float, 2> x;        // [T, H]: the residual stream
  std::span<const int> outputs;  // row of x for each output row; at most kOutputRows entries
  const Vector& final_norm;      // [H]
  const Matrix& unembedding;     // [V, H]
  const PackedMatrix* packed;    // the unembedding in strips, for int8 activations; or null
  float rms_eps;
  View<float, 2> normed;       // [at least outputs.size(), H*], scratch: normed rows
  View<Q8Block, 2> normed_q8;  // [at least outputs.size(), H / 32], scratch: normed rows in int8
  View<float, 2> logits;       // [at least outputs.size(), V]: receives the logits
  StepAdapters adapters{};     // of all rows of the step
};
void unembed(const UnembedArgs& args);

}  // namespace nibble::cpu
