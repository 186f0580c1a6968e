// A model whose experts, and those dense matrices that allow it, are in strips for int8 activations.
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
  std::optional<PackedMatrix> qkv;  // [(Nq + 2 Nkv) D, H]: q, then k, then v
  std::optional<PackedMatrix> o;    // [H, Nq D]
};

// Strips of the experts, and of dense matrices that are Q8_0 or MXFP4 and whose rows make whole strips. They
// are packed layer by layer: weights that are in memory and not shared are freed as they are packed, so at
// most one layer exists twice.
struct PackedModel {
  std::shared_ptr<const Weights> weights;  // without the packed matrices
  std::vector<PackedLayer> layers;         // empty: nothing is packed
  std::optional<PackedMatrix> unembedding;
};
// Packs a model. Dense matrices are first quantised to `dense`; experts are MXFP4.
PackedModel pack_model(std::shared_ptr<const Weights> weights, const DenseFormats& dense, int strip_rows,
                       ThreadPool& pool);

}  // namespace nibble::cpu
