// Checks of the kernel table's kernels, with edge shapes and adversarial values. Every result is compared
// with plain loops on the host in double precision. The loops follow the formulas of model/ops.h and round to
// bfloat16 where the kernels do; the kernels' other, float32 roundings are bounded where they happen. The
// float32 reference backend cannot replace the loops: a correct kernel may differ from it by whole bfloat16
// steps, and with such a tolerance a wrong column of a long sum would be missed.
#pragma once

#include <vector>

#include "backend/cuda/cuda_options.h"
#include "backend/cuda/kernel_table.h"
#include "backend/kernel_check.h"

namespace nibble::cuda::verify {

// Largest cases that a check runs. `nibble verify` sets no limits. Tests on an emulated GPU set them, because
// large cases take minutes there.
struct CaseLimits {
  int hidden{kAnyRows}, num_tokens{kAnyRows}, num_positions{kAnyRows};
};

using Check = KernelFinding (*)(const KernelRow& row, const Target& target, const CaseLimits& limits);

Check check_of(const KernelRow& row);
KernelFinding check_row(const KernelRow& row, const Target& target, const CaseLimits& limits);

// Returns the checks of all kernel table rows that this GPU, limited by the options, can run.
std::vector<KernelCheck> kernel_checks(const CudaOptions& options);

KernelFinding check_embed(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_rms_norm(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_qkv(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_append(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_attend_rows(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_attend_tiles(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_project(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_route(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_experts_up(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_route_and_experts_up(const KernelRow& row, const Target& target,
                                         const CaseLimits& limits);
KernelFinding check_experts_down(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_unembed(const KernelRow& row, const Target& target, const CaseLimits& limits);
KernelFinding check_sample(const KernelRow& row, const Target& target, const CaseLimits& limits);

}  // namespace nibble::cuda::verify
