// The only file that knows every backend, the best first. `--backend` picks one by name.
#include "setup/backends.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernel_table.h"
#if NIBBLE_CUDA
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernel_table.h"
#endif
#include "core/error.h"
#include "core/read_bandwidth.h"
#include "reference/reference_backend.h"

namespace nibble {
namespace {

GoldenTolerance float32_tolerance(const Config&, const GoldenSet&, std::span<const KernelChoice>) {
  return {};
}
GoldenTolerance cpu_tolerance(const Config& config, const GoldenSet& golden,
                              std::span<const KernelChoice> kernels) {
  const auto takes_int8 = [&](std::string_view operation) {
    return std::any_of(kernels.begin(), kernels.end(), [&](const KernelChoice& row) {
      return row.operation.starts_with(operation) && row.activations == "INT8";
    });
  };
  return int8_tolerance(config, golden,
                        {.qkv = takes_int8("qkv"),
                         .attention_output = takes_int8("project"),
                         .experts = takes_int8("experts"),
                         .unembedding = takes_int8("unembed")});
}
std::optional<reference::Rounding> cpu_rounding(const BackendOptions& options,
                                                std::span<const KernelChoice> kernels) {
  const auto is_int8 = [](const KernelChoice& row) { return row.activations == "INT8"; };
  if (std::none_of(kernels.begin(), kernels.end(), is_int8)) return std::nullopt;
  return reference::Rounding{.kv = options.kv_format, .int8_activations = true};
}
#if NIBBLE_CUDA
GoldenTolerance cuda_tolerance(const Config& config, const GoldenSet& golden, std::span<const KernelChoice>) {
  return bf16_tolerance(config, golden);
}
#endif

void check_isa(const BackendOptions& options) { cpu::isa_of(options.isa); }

std::string nothing() { return {}; }
bool always(const BackendOptions&) { return true; }
#if NIBBLE_CUDA
bool never(const BackendOptions&) { return false; }
#endif

double host_bandwidth() {
  ThreadPool all_cores(0);
  return read_bandwidth(all_cores, make_cold_bytes(all_cores));
}

constexpr BackendRow kBackends[] = {
#if NIBBLE_CUDA
    {"cuda", "one NVIDIA GPU", &cuda::plan, &cuda::make, true, false, nullptr, &never, &cuda::why_not,
     &cuda_tolerance, &cuda::read_bandwidth, &cuda::device_facts, nullptr, nullptr, &cuda::kernel_checks},
#endif
    {"cpu", "all cores, dense weights as they are stored", &cpu::plan, &cpu::make, false, true, &check_isa,
     &cpu::takes_int8, &nothing, &cpu_tolerance, &host_bandwidth, nullptr, &cpu::retune, &cpu_rounding,
     nullptr},
    {"reference", "plain loops in float32, slow: what the others are tested against", &reference::plan,
     &reference::make, false, false, &reference::check, &always, &nothing, &float32_tolerance,
     &host_bandwidth, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

std::span<const BackendRow> all_backends() { return kBackends; }

const BackendRow& best_backend() {
  return *std::find_if(std::begin(kBackends), std::end(kBackends),
                       [](const BackendRow& row) { return row.why_not().empty(); });
}

const BackendRow& find_backend(std::string_view name) {
  std::string names;
  for (const BackendRow& row : kBackends) {
    if (row.name == name) return row;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
#if !NIBBLE_CUDA
  if (name == "cuda")
    throw InputError(
        "--backend cuda: this program was built without it; the preset 'cuda' builds it, with nvcc 13");
#endif
  throw InputError("--backend '{}': accepted is one of {}", name, names);
}

}  // namespace nibble
