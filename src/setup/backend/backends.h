// The table of backends and what a command can do with each.
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
#include "model/golden/golden.h"
#include "model/ops.h"
#include "reference/rounding.h"

namespace nibble {

struct OwnOptions {  // options that only one backend has
  cpu::CpuOptions cpu{};
  cuda::CudaOptions cuda{};
};

// Memory of a device in bytes. `free` is what a backend could take if it were loaded now.
struct DeviceMemory {
  size_t total{0}, free{0};
  bool uses_host_memory{false};  // host and device share the memory; `free` is then the host's free memory
};

// Default limits of a step on a device. They depend on the device's prompt kernels, memory and speed.
struct BatchSizes {
  int max_batch_tokens, max_sequences;
  int max_shared_rows{0}, max_rows_with_answers{0};  // see EngineOptions
};

// Facts that must be equal on all nodes that share a model: `kernels` is everything that affects the bits
// of a result, `device_links` the library that connects their devices.
struct RankTraits {
  std::string kernels, device_links;
};

struct PredictedModel {
  const Config& config;
  const StorageFormats& formats;
};

// Functions that create a backend. Every backend has them.
struct BackendMaking {
  // Returns the default limits for the device of this name, or for this machine if `device` is nullopt.
  BatchSizes (*batch_sizes)(std::optional<std::string_view> device);
  bool takes_expert_activations;            // --experts-activations
  bool (*takes_blocks)(const OwnOptions&);  // whether weights may stay in GGUF's block formats
  // Returns why the backend takes no BackendOptions::adapters (--lora-modules); empty if it takes them.
  std::string (*why_no_adapters)(const OwnOptions&);
  // whether the backend has kernels for experts in this format
  bool (*runs_experts)(Format, const OwnOptions&);
  std::string (*why_not)();  // reason why this machine cannot run the backend; empty if it can
  // Throws InputError if this machine or this backend cannot run with the options.
  void (*check)(const BackendOptions&, const OwnOptions&);
  std::unique_ptr<Backend> (*make)(std::shared_ptr<const Weights>, const BackendOptions&, const OwnOptions&);
};

// Memory plan and read bandwidth. All backends have these functions.
struct BackendMemory {
  // Returns the memory plan of the fullest GPU, or of the host.
  MemoryPlan (*plan)(const Config&, const BackendOptions&, const OwnOptions&);
  // Measures the read bandwidth in bytes per second, with all cores or all GPUs that share the model.
  double (*read_bandwidth)(const OwnOptions&);
};

// Functions of a backend with device memory. Such a backend generates synthetic weights in that memory
// (model/weights.h: Recipe).
struct BackendDevice {
  std::string (*known_name)();  // name under which predict_on() knows this machine's device; empty: unknown
  DeviceFacts (*facts)();       // the device and its current state, for records
  // Memory of each GPU, and the memory plan of each.
  std::vector<DeviceMemory> (*memory)(const OwnOptions&);
  std::vector<MemoryPlan> (*plans)(const Config&, const BackendOptions&, const OwnOptions&);
  // Lists the kernels that a device of this name would run. `source`: the model's name, for messages.
  RemoteKernels (*kernels_on)(std::string_view device, const Config&, const BackendOptions&,
                              const OwnOptions&, std::string_view source);
  // Predicts the time of a step on a device of this name, or on several that share the model.
  StepPrediction (*predict_on)(std::string_view device, const PredictedModel&, const OwnOptions&,
                               const PredictedStep&, const PredictedSharing&);
  KernelTrials (*try_kernels)(const Config&, const BackendOptions&, const OwnOptions&, const TrialPlan&);
};

// How processes on several machines share a model (--nodes, BackendOptions::links).
struct BackendNodes {
  RankTraits (*traits)(const OwnOptions&);
  // Makes the id by which the nodes' devices find each other. Called by the head.
  GroupId (*new_group)(const OwnOptions&);
};

struct BackendTuning {  // applies what `nibble tune` finds for the host's CPU
  // Changes, between steps, the tuning of a backend that `make` returned.
  void (*retune)(Backend&, const cpu::CpuTuning&);
};

// How far results may be from golden data. All backends have these functions.
struct BackendAccuracy {
  GoldenTolerance (*tolerance)(const Config&, const GoldenSet&, std::span<const KernelChoice>);
  // Returns how the reference must round so that results can be compared at every position. nullopt: rounding
  // affects few positions, so the exact reference will do.
  std::optional<reference::Rounding> (*rounding)(const BackendOptions&, std::span<const KernelChoice>);
};

// The checks that `nibble verify` runs on this machine.
struct BackendVerification {
  std::vector<KernelCheck> (*checks)(const OwnOptions&);  // checks of the kernels that run on this machine
  std::span<const MachineProbe> (*probes)();              // probes that run before the checks
};

struct BackendRow {
  std::string_view name;
  std::string_view what;
  BackendMaking making;
  BackendMemory memory;
  BackendAccuracy accuracy;
  std::optional<BackendDevice> device{};              // nullopt: the backend runs on the CPU, in host memory
  std::optional<BackendNodes> nodes{};                // nullopt: runs on one machine only
  std::optional<BackendTuning> tuning{};              // nullopt: nothing to tune
  std::optional<BackendVerification> verification{};  // nullopt: unit tests check the kernels
};

// Returns the device with its current state, for records; nullopt if the backend runs on the CPU.
std::optional<DeviceFacts> device_facts(const BackendRow& backend);

std::span<const BackendRow> all_backends();  // best first

const BackendRow& find_backend(std::string_view name);  // throws InputError that lists the names
const BackendRow& best_backend();  // the first backend in the table that this machine can run

std::string device_code();  // devices for which this program holds machine code, in one line; empty if none

}  // namespace nibble
