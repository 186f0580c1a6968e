// The only file that knows every backend. Best first; `--backend` picks by name.
#include "cli/backends.h"

#include "backend/cpu/cpu_backend.h"
#include "core/error.h"
#include "core/read_bandwidth.h"
#include "reference/reference_backend.h"

namespace nibble::cli {
namespace {

GoldenTolerance float32_tolerance(const Config&, const GoldenSet&) { return {}; }

double host_bandwidth() {
  ThreadPool all_cores(0);
  return read_bandwidth(all_cores, make_cold_bytes(all_cores));
}

constexpr BackendRow kBackends[] = {
    {"cpu", "all cores, weights as they are stored", &cpu::plan, &cpu::make, &bf16_cache_tolerance,
     &host_bandwidth},
    {"reference", "plain loops in float32, slow: what the others are tested against", &reference::plan,
     &reference::make, &float32_tolerance, &host_bandwidth},
};

}  // namespace

std::span<const BackendRow> all_backends() { return kBackends; }

const BackendRow& find_backend(const std::optional<std::string>& name) {
  if (!name) return kBackends[0];
  std::string names;
  for (const BackendRow& row : kBackends) {
    if (row.name == *name) return row;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  throw InputError("--backend '{}': accepted is one of {}", *name, names);
}

}  // namespace nibble::cli
