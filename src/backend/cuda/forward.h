// The forward pass of a layer. It calls operations in the order of reference/forward.cpp (plain loops on the
// CPU), under the same names.
#pragma once

#include <functional>

#include "backend/cuda/operations.h"
#include "backend/cuda/pipeline/norm_input.h"

namespace nibble::cuda {

// A function that is called after each layer, or after the attention half of each layer. The function
// enqueues work that reads the residual stream `x`; later launches of the step overwrite `x`.
using Tap = std::function<void(size_t layer, const ResidualInput& x)>;

// Functions that are called when launches of a layer have been enqueued. Each may be empty.
struct Taps {
  std::function<void(size_t layer)> after_attend{};
  Tap after_project{};  // gets the residual stream after attention
  Tap after_layer{};
};

// Enqueues half a layer: half 2 n is the attention of layer n, half 2 n + 1 its experts. A step is embed(),
// all halves in order, unembed(), sample(). If ranks share the model, an all-reduce follows each half.
void run_half_layer(const Step& step, int half, const Taps& taps);
inline int num_halves(const Model& model) { return 2 * static_cast<int>(model.weights.layers.size()); }

}  // namespace nibble::cuda
