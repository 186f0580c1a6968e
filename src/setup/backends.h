// Which backends there are.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/device_facts.h"
#include "backend/kernel_check.h"
#include "model/golden.h"
#include "reference/rounding.h"

namespace nibble {

struct BackendRow {
  std::string_view name;
  std::string_view what;
  MemoryPlan (*plan)(const Config&, const BackendOptions&);
  std::unique_ptr<Backend> (*make)(std::shared_ptr<const Weights>, const BackendOptions&);
  // Takes weights that are not made (Weights::unmade), and memory of its own, which it checks itself.
  bool is_device;
  bool takes_expert_activations;  // BackendOptions::expert_activations
  // Throws InputError where this machine or this backend can't run with the options. Null: it takes all.
  void (*check)(const BackendOptions&);
  bool (*takes_blocks)(
      const BackendOptions&);  // of matrices that have them, in place of elements (StoredBlocks)
  std::string (*why_not)();    // why this machine cannot run it; empty where it can
  // How far it may be from golden data of the weights that it is given, with the kernels that it says run.
  GoldenTolerance (*tolerance)(const Config&, const GoldenSet&, std::span<const KernelChoice>);
  // Measures the memory that it decodes from: bytes per second, all cores reading.
  double (*read_bandwidth)();
  DeviceFacts (*device)();  // what it runs on beside the host's cores, and how that stands now; null: nothing
  // Of a backend that this row made, between steps; null: there is nothing to tune.
  void (*retune)(Backend&, const CpuTuning&);
  // What the reference has to round to be compared with it place by place, with the kernels that it says run; nothing, or null: what
  // it rounds decides so few places that comparing it with exact data does.
  std::optional<reference::Rounding> (*rounding)(const BackendOptions&, std::span<const KernelChoice>);
  std::vector<KernelCheck> (*checks)();  // of the rows of its kernel table that run here; null: it has none
};

std::span<const BackendRow> all_backends();  // best first

const BackendRow& find_backend(std::string_view name);  // throws InputError that lists the names
const BackendRow& best_backend();                       // the first one that this machine can run

}  // namespace nibble
