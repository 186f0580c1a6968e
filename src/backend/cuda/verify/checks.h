// Checks of the kernel table's kernels, with edge shapes and adversarial values. Every result is compared
// with plain loops on the host in double precision. The loops follow the formulas of model/ops.h and round to
// bfloat16 where the kernels do; the kernels' other, float32 roundings are bounded where they happen. The
// float32 reference backend cannot replace the loops: a correct kernel may differ from it by whole bfloat16
// steps, and with such a tolerance a wrong column of a long sum would be missed.
#pragma once

#include <vector>

#include "backend/cuda/cuda_options.h"
#include "backend/cuda/verify/shapes.h"
#include "backend/kernel_check.h"

namespace nibble::cuda::verify {

KernelFinding check_row(const KernelRow& row, const Target& target, const CaseLimits& limits);

// Checks the kernels that add the updates of adapters, which are in no row of the table.
KernelFinding check_adapters(const Target& target, const CaseLimits& limits);

// Returns the checks of all kernels that this GPU, limited by the options, can run.
std::vector<KernelCheck> kernel_checks(const CudaOptions& options);

}  // namespace nibble::cuda::verify
