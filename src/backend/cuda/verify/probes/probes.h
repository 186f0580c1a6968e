// Probes that `nibble verify` runs on a GPU before it checks the kernel table. Each takes less than a second.
#pragma once

#include <span>

#include "backend/machine_probe.h"

namespace nibble::cuda::verify {

ProbeFinding probe_unpacking();
ProbeFinding probe_quantising();
ProbeFinding probe_rates();
ProbeFinding probe_plain_reads();
ProbeFinding probe_ring_reads();
ProbeFinding probe_shared_memory();
ProbeFinding probe_memory_kind();
ProbeFinding probe_device();
ProbeFinding probe_dependent_launches();

std::span<const MachineProbe> machine_probes();  // returns the probes in the order in which they run

}  // namespace nibble::cuda::verify
