// A model whose experts, and dense matrices where possible, are in strips for int8 activations.
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

// Models are packed layer by layer; unshared weights are freed, so at most one layer is in memory twice.
struct PackedModel {
  std::shared_ptr<const Weights> weights;  // without the packed matrices
  std::vector<PackedLayer> layers;         // empty: nothing is packed
  std::optional<PackedMatrix> unembedding;
};
// Dense matrices are first quantised to `dense`; experts must be MXFP4.
PackedModel pack_model(std::shared_ptr<const Weights> weights, const DenseFormats& dense, int strip_rows,
                       ThreadPool& pool);

}  // namespace nibble::cpu
