// The forward pass: the launches of a step. Beside reference/forward.cpp, in the same order and with the same names.
#pragma once

#include <functional>

#include "backend/cuda/device_weights.h"
#include "backend/cuda/plan.h"
#include "backend/cuda/step_input.h"
#include "backend/cuda/workspace.h"

namespace nibble::cuda {

struct Model {
  const Config& config;
  const DeviceWeights& weights;
  const KvStorage& kv;
};

// Launches what reads the residual stream behind a layer; the next layer may change it.
using Tap = std::function<void(size_t layer, const ResidualInput& x)>;

// Everything up to the last layer, for all rows of a step. `tap` may be empty.
void run_layers(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                Stream stream, const Tap& tap);

// The logits of outputs [first, first + count), which are at most kOutputRows, and the tokens that are chosen by them.
void run_unembed(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                 int first, int count, Stream stream);
void run_sample(const Model& model, const Plan& plan, const Workspace& work, const StepShape& shape,
                int first, int count, Stream stream);

}  // namespace nibble::cuda
