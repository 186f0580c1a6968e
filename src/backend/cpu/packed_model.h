// A model whose experts are in strips for int8 activations, and so are dense matrices where possible.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/cpu/packed_matrix.h"
#include "core/console/progress.h"
#include "core/threads/thread_pool.h"
#include "model/quantize.h"
#include "model/weights.h"

namespace nibble::cpu {

struct PackedExperts {
  PackedMatrix gate_up, down;  // [E, 2I, H], [E, H, I]
};
struct PackedLayer {
  std::optional<PackedExperts> experts;  // absent for BF16 and FP8: such experts take float activations
  std::optional<PackedMatrix> qkv;       // [(Nq + 2 Nkv) D, H]: q, then k, then v
  std::optional<PackedMatrix> o;         // [H, Nq D]
};

// Weights of which some matrices are packed. Packing goes layer by layer. So at most one layer is in memory
// twice, unless `weights` has other owners.
struct PackedModel {
  std::shared_ptr<const Weights> weights;  // packed matrices keep only their shapes here
  std::vector<PackedLayer> layers;         // one per layer; empty if the model is not packed
  std::optional<PackedMatrix> unembedding;
};
// Quantises dense matrices to the formats in `dense`, then packs matrices. Packs experts only if they are
// MXFP4 or Q8_0. Calls `report` with the number of layers that are done; the unembedding counts as one.
PackedModel pack_model(std::shared_ptr<const Weights> weights, const DenseFormats& dense, int strip_rows,
                       ThreadPool& pool, const ReportProgress& report = {});

}  // namespace nibble::cpu
