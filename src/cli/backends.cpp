// The only file that knows every backend. Best first; `--backend` picks by name.
#include "cli/backends.h"

#include "backend/cpu/cpu_backend.h"
#include "core/error.h"
#include "reference/reference_backend.h"

namespace nibble::cli {
namespace {

// Of a backend that keeps keys and values in BF16, which rounds each by up to 2^-9 of itself. That alone moves a row of
// logits by about 1e-3, and where it tips the choice of an expert by up to 1e-2 and a log-probability by up to 0.4. The
// reference with its cache rounded in the same way is as far from the golden data, prompt by prompt: prose300, the worst
// one, by 1.07e-2 there and by 1.05e-2 on the CPU.
constexpr GoldenTolerance kBf16Cache{
    .relative_l2 = 2e-2, .top_gap = 0.5, .router_margin = 1e-2, .greedy_gap = 0.5};

constexpr BackendRow kBackends[] = {
    {"cpu", "all cores, weights as they are stored", &cpu::plan, &cpu::make, kBf16Cache},
    {"reference", "plain loops in float32, slow: what the others are tested against", &reference::plan,
     &reference::make, GoldenTolerance{}},
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
