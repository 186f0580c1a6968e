// Tries the kernels of the table on this GPU (tune/step_kernels.h).
#pragma once

#include <span>

#include "backend/cuda/cuda_options.h"
#include "backend/kernel_trials.h"
#include "core/progress.h"

namespace nibble::cuda {

// Runs every candidate in steps of each of these numbers of rows, of a model of this configuration with a few layers and random weights.
// First each kernel's own check (verify/checks.h) runs with so many rows, and a candidate of which one is wrong is not timed. Up to
// kMaxGraphTokens rows a step is one of decoding, of as many sequences, and its number of rows is rounded up to that of a graph; more are
// a prompt. Throws InputError where there is no GPU, or the model does not run on it.
KernelTrials try_kernels(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::span<const int> num_rows, int num_repetitions, const ReportProgress& report);

}  // namespace nibble::cuda
