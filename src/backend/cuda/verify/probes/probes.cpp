// Rows only.
#include "backend/cuda/verify/probes/probes.h"

namespace nibble::cuda::verify {
namespace {

constexpr MachineProbe kProbes[]{
    {"device", &probe_device},
    {"memory/kind", &probe_memory_kind},
    {"memory/shared", &probe_shared_memory},
    {"memory/plain-reads", &probe_plain_reads},
    {"memory/ring-reads", &probe_ring_reads},
    {"launches/dependent", &probe_dependent_launches},
    {"rates", &probe_rates},
    {"blocks/places", &probe_places},
    {"blocks/scale-lanes", &probe_scale_lanes},
    {"blocks/scale-bytes", &probe_scale_bytes},
    {"blocks/containers", &probe_containers},
    {"blocks/scale-values", &probe_scale_values},
    {"blocks/sum-width", &probe_sum_width},
    {"blocks/products", &probe_products},
    {"blocks/twin", &probe_twin},
    {"blocks/unit-scales", &probe_unit_scales},
    {"blocks/unpacking", &probe_unpacking},
    {"blocks/quantising", &probe_quantising},
};

}  // namespace

std::span<const MachineProbe> machine_probes() { return kProbes; }

}  // namespace nibble::cuda::verify
