// The checks of the rows of the kernel table. Each runs the launcher of a row over edge shapes and
// adversarial values, and compares every number of its results with plain loops in double precision on the
// host.
//
// These loops follow the formulas of model/ops.h, and round to bfloat16 exactly where the kernels do. What
// remains are float32's roundings, each bounded where it happens. The reference (reference/) would not do: it
// keeps everything in float32, so a correct kernel may differ from it by whole bfloat16 steps, and a
// tolerance that allows these would miss a wrong column of a long sum. (It is also on the same floor, so this
// folder may not include it.) The golden data show that kernels and reference agree on whole models.
#pragma once

#include <vector>

#include "backend/cuda/cuda_options.h"
#include "backend/cuda/kernel_table.h"
#include "backend/kernel_check.h"

namespace nibble::cuda::verify {

// The largest cases that a check runs. `nibble verify` runs all; on an emulated GPU large ones take minutes.
struct CaseLimits {
  int hidden{kAnyRows}, num_tokens{kAnyRows}, num_positions{kAnyRows};
};

using Check = KernelFinding (*)(const KernelRow& row, const Target& target, const CaseLimits& limits);

// The check of what the row launches.
Check check_of(const KernelRow& row);
KernelFinding check_row(const KernelRow& row, const Target& target, const CaseLimits& limits);

// The checks of all rows that this GPU can run, as the options pretend it to be.
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
