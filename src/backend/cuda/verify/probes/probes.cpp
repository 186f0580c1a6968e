#include "backend/cuda/verify/probes/probes.h"

#include "backend/cuda/verify/probes/block_probes.h"

namespace nibble::cuda::verify {
namespace {

template <ProbeFinding (*ask)(const BlockMachine&)>
ProbeFinding on_this_gpu() {
  return ask(this_gpu());
}

constexpr MachineProbe kProbes[]{
    {"device", &probe_device},
    {"memory/kind", &probe_memory_kind},
    {"memory/shared", &probe_shared_memory},
    {"memory/plain-reads", &probe_plain_reads},
    {"memory/ring-reads", &probe_ring_reads},
    {"launches/dependent", &probe_dependent_launches},
    {"rates", &probe_rates},
    {"blocks/places", &on_this_gpu<&ask_places>},
    {"blocks/scale-lanes", &on_this_gpu<&ask_scale_lanes>},
    {"blocks/scale-bytes", &on_this_gpu<&ask_scale_bytes>},
    {"blocks/containers", &on_this_gpu<&ask_containers>},
    {"blocks/scale-values", &on_this_gpu<&ask_scale_values>},
    {"blocks/sum-width", &on_this_gpu<&ask_sum_width>},
    {"blocks/products", &on_this_gpu<&ask_products>},
    {"blocks/twin", &on_this_gpu<&ask_twin>},
    {"blocks/unit-scales", &on_this_gpu<&ask_unit_scales>},
    {"blocks/unpacking", &probe_unpacking},
    {"blocks/quantising", &probe_quantising},
};

}  // namespace

std::span<const MachineProbe> machine_probes() { return kProbes; }

}  // namespace nibble::cuda::verify
