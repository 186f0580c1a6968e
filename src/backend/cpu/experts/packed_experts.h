// MXFP4 experts in strips (isa/kernels.h has the layout): as many bytes as are stored, in another order. Made once, when a
// model is loaded.
#pragma once

#include <vector>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "model/weights.h"

namespace nibble::cpu {

// E matrices [rows, cols].
struct PackedExperts {
  int rows{0}, cols{0};
  Buffer storage;  // all codes, then all scales

  const uint8_t* codes(int expert) const;
  const uint8_t* scales(int expert) const;
  size_t num_blocks() const;  // of one expert
  int num_experts{0};
};

// `experts` are MXFP4, their rows whole strips. Bytes: read once, written once.
PackedExperts pack(const ExpertMatrices& experts, int num_experts, int strip_rows, ThreadPool& pool);

struct PackedLayer {
  PackedExperts gate_up, down;
};

// Those of all layers, layer by layer, and the model without them: where they are made weights and nobody else holds
// `weights`, their memory goes as their strips come. Beside them there is one layer at most.
struct PackedModel {
  std::shared_ptr<const Weights> weights;  // gate_up and down without elements, with their biases
  std::vector<PackedLayer> layers;
};
PackedModel pack_experts(std::shared_ptr<const Weights> weights, int strip_rows, ThreadPool& pool);

}  // namespace nibble::cpu
