// Tries the kernels of the table on this GPU (tune/step_kernels.h).
#pragma once

#include "backend/cuda/cuda_options.h"
#include "backend/kernel_trials.h"

namespace nibble::cuda {

// Runs every candidate in steps of each of the plan's numbers of rows, on a model of this configuration with
// a few layers and random weights. First each kernel's own check (verify/checks.h) runs with that number of
// rows; a candidate with a wrong kernel is not timed. Up to kMaxGraphTokens rows, a step is a decode step
// with one row per sequence, rounded up to the rows of a graph; with more rows it is a prefill. Throws
// InputError without a GPU, or if the model cannot run on it.
KernelTrials try_kernels(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         const TrialPlan& trials);

}  // namespace nibble::cuda
