// Last part of the attention block: x += Wo attended + bo.
// Memory traffic: the weights (20b: 23.6 MB per layer).
#pragma once

#include "backend/cpu/dense/adapters.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/packed_matrix.h"
#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::cpu {

struct ProjectArgs {
  const Machine& machine;
  View<const float, 2> attended;  // [T, (Nq D)*]: output of attention
  const Matrix& weight;           // [H, Nq D]
  const PackedMatrix* packed;     // the weight in strips, for int8 activations; or null
  View<Q8Block, 2> attended_q8;   // [T, Nq D / 32], scratch: `attended` in int8
  const Vector& bias;             // [H]
  View<float, 2> x;               // [T, H]: the residual stream
  LayerAdapters adapters{};
};
void project(const ProjectArgs& args);

}  // namespace nibble::cpu
