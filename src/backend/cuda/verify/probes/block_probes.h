// Probes of block-scaled products. The probes use the block-scaled mma instruction or, on GPUs without it,
// the instruction's software twin.
#pragma once

#include "backend/cuda/verify/probes/block_runs.h"

namespace nibble::cuda::verify {

// ask_places(), ask_scale_lanes() and ask_scale_bytes() find the places of elements of A, B, D and scales in
// registers (ptx/block_codes.h, ptx/block_mma.cuh).
ProbeFinding ask_places(const BlockMachine& machine);
ProbeFinding ask_scale_lanes(const BlockMachine& machine);
ProbeFinding ask_scale_bytes(const BlockMachine& machine);
ProbeFinding ask_containers(const BlockMachine& machine);
ProbeFinding ask_scale_values(const BlockMachine& machine);
ProbeFinding ask_products(const BlockMachine& machine);
ProbeFinding ask_twin(const BlockMachine& machine);
ProbeFinding ask_sum_width(const BlockMachine& machine);
ProbeFinding ask_unit_scales(const BlockMachine& machine);

}  // namespace nibble::cuda::verify
