// The checks that rows of the kernel table name. Each runs one operation through its launch function (kernels.h) over edge
// shapes and adversarial values, and compares every number that it leaves with plain loops in double precision on the host.
//
// Those loops follow the formulas of model/ops.h and round to bfloat16 where the kernels say that they do, and nowhere else: what is
// left are float32's roundings, which are bounded one by one where they happen. (The reference in reference/ keeps all in
// float32: against it a kernel may be off by whole bfloat16 steps, in which a wrong column of a long sum disappears. It lies on
// this floor as well. That kernels and reference say the same of whole models is held by the golden data.)
#pragma once

#include "backend/cuda/kernel_table.h"

namespace nibble::cuda::verify {

KernelFinding check_embed(const KernelRow& row);
KernelFinding check_normalise(const KernelRow& row);
KernelFinding check_qkv(const KernelRow& row);
KernelFinding check_append(const KernelRow& row);
KernelFinding check_attend(const KernelRow& row);
KernelFinding check_project(const KernelRow& row);
KernelFinding check_route(const KernelRow& row);
KernelFinding check_up(const KernelRow& row);
KernelFinding check_route_up(const KernelRow& row);
KernelFinding check_down(const KernelRow& row);
KernelFinding check_unembed(const KernelRow& row);
KernelFinding check_sample(const KernelRow& row);

}  // namespace nibble::cuda::verify
