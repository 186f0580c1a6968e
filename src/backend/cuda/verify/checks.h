// The checks that rows of the kernel table name. Each runs the launcher of its row over edge shapes and
// adversarial values, and compares every number of its results with plain loops in double precision on the
// host.
//
// These loops follow the formulas of model/ops.h, and round to bfloat16 exactly where the kernels do. What
// remains are float32's roundings, each bounded where it happens. The reference (reference/) would not do: it
// keeps everything in float32, so a correct kernel may differ from it by whole bfloat16 steps, and a
// tolerance that allows these would miss a wrong column of a long sum. (It is also on the same floor, so this
// folder may not include it.) The golden data show that kernels and reference agree on whole models.
#pragma once

#include "backend/cuda/kernel_table.h"

namespace nibble::cuda::verify {

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
