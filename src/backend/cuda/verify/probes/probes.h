// What `nibble verify` asks a GPU before it checks the rows of the kernel table. Each takes less than a second.
//
// Questions about block-scaled products go to the instruction where the GPU has it, to its twin elsewhere.
#pragma once

#include <span>

#include "backend/machine_probe.h"

namespace nibble::cuda::verify {

// Where the elements of A, B and D and the scales lie (ptx/block_codes.h, ptx/block_mma.cuh).
ProbeFinding probe_places();
ProbeFinding probe_scale_lanes();
ProbeFinding probe_scale_bytes();
ProbeFinding probe_containers();
// What block-scaled products compute.
ProbeFinding probe_scale_values();
ProbeFinding probe_products();
ProbeFinding probe_twin();
ProbeFinding probe_sum_width();
ProbeFinding probe_unit_scales();
// How their operands are made.
ProbeFinding probe_unpacking();
ProbeFinding probe_quantising();
// Rates, memory, order.
ProbeFinding probe_rates();
ProbeFinding probe_plain_reads();
ProbeFinding probe_ring_reads();
ProbeFinding probe_shared_memory();
ProbeFinding probe_memory_kind();
ProbeFinding probe_device();
ProbeFinding probe_dependent_launches();

// The table of probes, in the order in which they are asked.
std::span<const MachineProbe> machine_probes();

}  // namespace nibble::cuda::verify
