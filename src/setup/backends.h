// The table of backends.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_options.h"
#include "backend/cuda/cuda_options.h"
#include "backend/device_facts.h"
#include "backend/kernel_check.h"
#include "backend/kernel_trials.h"
#include "backend/machine_probe.h"
#include "backend/prediction.h"
#include "core/progress.h"
#include "model/golden/golden.h"
#include "model/ops.h"
#include "reference/rounding.h"

namespace nibble {

// The options of single backends, of which each row reads its own.
struct OwnOptions {
  cpu::CpuOptions cpu{};
  cuda::CudaOptions cuda{};
};

// Memory that a device has, and what of it a backend could take now.
struct DeviceMemory {
  size_t total{0}, free{0};
};

// Where nobody says: tokens of one step, as many as the kernels for prompts are made for and memory has room for, and sequences at once.
struct BatchSizes {
  int max_batch_tokens, max_sequences;
};

// What processes on several machines that share a model must have alike: what decides bits, and the library that connects their devices.
struct RankTraits {
  std::string kernels, device_links;
};

struct BackendRow {
  std::string_view name;
  std::string_view what;
  BatchSizes (*batch_sizes)(
      std::optional<size_t> device_bytes);  // on a device with so much memory; not set: on this machine
  MemoryPlan (*plan)(const Config&, const BackendOptions&,
                     const OwnOptions&);  // of the fullest GPU, or of the host
  std::unique_ptr<Backend> (*make)(std::shared_ptr<const Weights>, const BackendOptions&, const OwnOptions&);
  // Has memory of its own, which it checks itself, and takes recipes in place of elements (model/weights.h).
  bool is_device;
  bool takes_expert_activations;  // --experts-activations
  // --nodes: its processes on several machines share a model (BackendOptions::links). Null: they can't.
  RankTraits (*rank_traits)(const OwnOptions&);
  // By what the devices of nodes find each other; the head's process makes it. Null: they need nothing.
  GroupId (*new_group)(const OwnOptions&);
  // Throws InputError where this machine or this backend can't run with the options. Null: it takes all.
  void (*check)(const BackendOptions&, const OwnOptions&);
  bool (*takes_blocks)(const OwnOptions&);  // takes matrices in blocks, as with_elements() leaves them
  std::string (*why_not)();                 // why this machine cannot run it; empty where it can
  // The tolerance of its results against golden data, with the kernels that it chose.
  GoldenTolerance (*tolerance)(const Config&, const GoldenSet&, std::span<const KernelChoice>);
  // Measures how fast it reads the memory that it decodes from, in bytes per second, with all cores, or all GPUs that share the model.
  double (*read_bandwidth)(const OwnOptions&);
  std::vector<DeviceMemory> (*memory)(const OwnOptions&);  // of each GPU; null: the host's
  // The plan of each GPU, in the order of `memory`. Null: `plan` is all.
  std::vector<MemoryPlan> (*plans)(const Config&, const BackendOptions&, const OwnOptions&);
  DeviceFacts (*device)();  // the device and its present state, for records; null: the host's cores
  // Changes the tuning of a backend that `make` made, between steps. Null: there is nothing to tune.
  void (*retune)(Backend&, const cpu::CpuTuning&);
  // The roundings of these kernels that the reference has to repeat for a comparison place by place. Not set, or null: they decide so
  // few places that exact data will do.
  std::optional<reference::Rounding> (*rounding)(const BackendOptions&, std::span<const KernelChoice>);
  std::vector<KernelCheck> (*checks)(const OwnOptions&);  // of the kernels that run here; null: none
  std::span<const MachineProbe> (*probes)();  // what is asked of the device before them; null: nothing
  // The kernels that a device of this name would run; `source` names the model in messages. Null: there are no names.
  RemoteKernels (*kernels_on)(std::string_view device, const Config&, const BackendOptions&,
                              const OwnOptions&, std::string_view source);
  // Predicts how long a step would take on a device of this name, or on several that share the model. Null: there are no names.
  StepPrediction (*predict_on)(std::string_view device, const Config&, const StorageFormats&,
                               const OwnOptions&, const PredictedStep&, const PredictedSharing&);
  // Tries its kernels with these numbers of rows, and times each so often. Null: no table of numbers of rows chooses them.
  KernelTrials (*try_kernels)(const Config&, const BackendOptions&, const OwnOptions&,
                              std::span<const int> num_rows, int num_repetitions,
                              const ReportProgress& report);
};

std::span<const BackendRow> all_backends();  // best first

const BackendRow& find_backend(std::string_view name);  // throws InputError that lists the names
const BackendRow& best_backend();                       // the first one that this machine can run

std::string device_code();  // which devices' code this program holds, in a line; empty where it has none

}  // namespace nibble
