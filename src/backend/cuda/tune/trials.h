#pragma once

#include "backend/cuda/cuda_options.h"
#include "backend/kernel_trials.h"

namespace nibble::cuda {

// Runs every candidate (tune/step_kernels.h) in steps of each number of rows in `trials`, on a model with few
// layers and random weights. A candidate is timed only if its kernels pass their checks (verify/checks.h) at
// that number. A step of up to kMaxGraphTokens rows decodes one row per sequence, and its number of rows is
// rounded up to that of a graph; a larger step is a prefill. Throws InputError without a GPU, or if the GPU
// cannot run the model.
KernelTrials try_kernels(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         const TrialPlan& trials);

}  // namespace nibble::cuda
