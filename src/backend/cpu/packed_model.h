// What a model's matrices become with int8 activations, and the rest of it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/cpu/packed_matrix.h"
#include "core/thread_pool.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cpu {

struct PackedLayer {
  PackedMatrix gate_up, down;       // [E, 2I, H], [E, H, I]
  std::optional<PackedMatrix> qkv;  // [(Nq + 2 Nkv) D, H]: q, below it k and v
  std::optional<PackedMatrix> o;    // [H, Nq D]
};

// Experts, and those dense matrices that are Q8_0 or MXFP4 and whose rows make whole strips, layer by layer: where weights are made
// and nobody else holds them, their memory goes as their strips come. Beside them there is one layer at most.
struct PackedModel {
  std::shared_ptr<const Weights> weights;  // of packed experts no elements, of others all
  std::vector<PackedLayer> layers;         // none: nothing is packed
  std::optional<PackedMatrix> unembedding;
};
// Dense layers are quantised to `dense` on the way; experts are MXFP4.
PackedModel pack_model(std::shared_ptr<const Weights> weights, const DenseFormats& dense, int strip_rows,
                       ThreadPool& pool);

}  // namespace nibble::cpu
