// The forward pass of a layer. Operations have the order and the names of reference/forward.cpp.
#pragma once

#include <functional>

#include "backend/cuda/operations.h"
#include "backend/cuda/pipeline/norm_input.h"

namespace nibble::cuda {

// Called after each layer: launches readers of the residual stream, before the next layer overwrites it.
using Tap = std::function<void(size_t layer, const ResidualInput& x)>;

// Runs half a layer: attention if `half` is even, the experts if odd. `tap` may be empty. A step is embed(),
// all halves, unembed(), sample(). If ranks share the model, the caller sums over ranks after each half.
void run_half_layer(const Step& step, int half, const Tap& tap);
inline int num_halves(const Model& model) { return 2 * static_cast<int>(model.weights.layers.size()); }

}  // namespace nibble::cuda
