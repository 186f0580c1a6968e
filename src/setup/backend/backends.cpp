// The only file that knows every backend. The table lists the best first; `--backend` selects by name.
#include "setup/backend/backends.h"

#include <algorithm>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernel_table.h"
#if NIBBLE_CUDA
#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/device_facts.h"
#include "backend/cuda/chip/images.h"
#include "backend/cuda/chip/read_bandwidth.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/predict/batch_tokens.h"
#include "backend/cuda/predict/predict.h"
#include "backend/cuda/ranks/cards.h"
#include "backend/cuda/ranks/connection.h"
#include "backend/cuda/tune/trials.h"
#include "backend/cuda/verify/checks.h"
#include "backend/cuda/verify/probes/probes.h"
#endif
#include "core/errors/error.h"
#include "core/memory/read_bandwidth.h"
#include "reference/reference_backend.h"

namespace nibble {
namespace {

GoldenTolerance float32_tolerance(const Config&, const GoldenSet&, std::span<const KernelChoice>) {
  return {};
}
GoldenTolerance cpu_tolerance(const Config& config, const GoldenSet& golden,
                              std::span<const KernelChoice> kernels) {
  const auto takes_int8 = [&](Operation operation) {
    return std::ranges::any_of(kernels, [&](const KernelChoice& row) {
      return row.operation == operation && row.activations == "INT8";
    });
  };
  return int8_tolerance(config, golden,
                        {.qkv = takes_int8(Operation::kQkv),
                         .attention_output = takes_int8(Operation::kProject),
                         .experts = takes_int8(Operation::kExpertsUp) || takes_int8(Operation::kExpertsDown),
                         .unembedding = takes_int8(Operation::kUnembed)});
}
std::optional<reference::Rounding> cpu_rounding(const BackendOptions& options,
                                                std::span<const KernelChoice> kernels) {
  const auto is_int8 = [](const KernelChoice& row) { return row.activations == "INT8"; };
  if (std::ranges::none_of(kernels, is_int8)) return std::nullopt;
  return reference::Rounding{.kv = options.kv_format, .int8_activations = true};
}
std::optional<reference::Rounding> no_rounding(const BackendOptions&, std::span<const KernelChoice>) {
  return std::nullopt;
}
#if NIBBLE_CUDA
GoldenTolerance cuda_tolerance(const Config& config, const GoldenSet& golden,
                               std::span<const KernelChoice> kernels) {
  for (const KernelChoice& row : kernels) {
    if (row.operation != Operation::kExpertsUp) continue;
    if (row.activations == name(Format::kMxfp8)) return block_scaled_tolerance(config, golden, kMxfp8Error);
    if (row.activations == name(Format::kMxfp4)) return block_scaled_tolerance(config, golden, kMxfp4Error);
  }
  return bf16_tolerance(config, golden);
}
#endif

void check_isa(const BackendOptions&, const OwnOptions& own) { cpu::isa_of(own.cpu.isa); }
void check_reference(const BackendOptions& options, const OwnOptions&) { reference::check(options); }
#if NIBBLE_CUDA
void accept_all(const BackendOptions&, const OwnOptions&) {}
#endif

std::string nothing() { return {}; }
// On a CPU, a step of 512 tokens of gpt-oss-20b takes seconds. If several sequences run or wait, a step has
// at most 128 prompt tokens (max_shared_rows); such a step is as fast per token as one of 512.
BatchSizes host_batch_sizes(std::optional<std::string_view>) {
  return {.max_batch_tokens = 512, .max_sequences = 16, .max_shared_rows = 128};
}
bool always(const OwnOptions&) { return true; }
std::string nothing_against_adapters(const OwnOptions&) { return {}; }
#if NIBBLE_CUDA
bool never(const OwnOptions&) { return false; }
std::string why_no_adapters_on_cuda(const OwnOptions& own) { return cuda::why_no_adapters(own.cuda); }
bool only_mxfp4(Format format, const OwnOptions&) { return format == Format::kMxfp4; }
MemoryPlan plan_cuda(const Config& config, const BackendOptions& options, const OwnOptions& own) {
  return cuda::plan(config, options, own.cuda);
}
std::unique_ptr<Backend> make_cuda(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                                   const OwnOptions& own) {
  return cuda::make(std::move(weights), options, own.cuda);
}
RankTraits cuda_rank_traits(const OwnOptions& own) {
  const cuda::RankTraits traits = cuda::rank_traits(own.cuda);
  return {traits.kernels, traits.nccl};
}
GroupId cuda_new_group(const OwnOptions& own) { return cuda::new_group(own.cuda); }
std::vector<MemoryPlan> plans_cuda(const Config& config, const BackendOptions& options,
                                   const OwnOptions& own) {
  std::vector<MemoryPlan> plans;
  for (const cuda::GpuPlan& gpu : cuda::memory_plans(config, options, own.cuda)) plans.push_back(gpu.plan);
  return plans;
}
std::vector<DeviceMemory> cuda_memory(const OwnOptions& own) {
  const std::vector<int> devices = cuda::devices_of(own.cuda);
  std::vector<DeviceMemory> all;
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (std::find(devices.begin(), device, *device) != device) continue;  // The GPU is listed twice.
    cuda::use_device(*device);
    const cuda::DeviceCaps& caps = cuda::device_caps();
    all.push_back({caps.total_bytes, cuda::loadable_bytes(caps), caps.is_integrated});
  }
  cuda::use_device(devices.front());
  return all;
}
double cuda_bandwidth(const OwnOptions& own) {
  double sum = 0;
  const std::vector<int> devices = cuda::devices_of(own.cuda);
  for (const int device : std::set<int>(devices.begin(), devices.end())) {
    cuda::use_device(device);
    sum += cuda::read_bandwidth();
  }
  cuda::use_device(devices.front());
  return sum;
}
cuda::DeviceCaps caps_here() { return cuda::why_not().empty() ? cuda::device_caps() : cuda::DeviceCaps{}; }
BatchSizes cuda_batch_sizes(std::optional<std::string_view> gpu) {
  const cuda::DeviceCaps caps = gpu ? cuda::known_gpu(*gpu) : caps_here();
  return {.max_batch_tokens = cuda::default_batch_tokens(caps),
          .max_sequences = cuda::has_much_memory(caps) ? 256 : 64,
          .max_rows_with_answers = cuda::default_rows_with_answers(caps)};
}
std::string cuda_known_name() { return cuda::known_name_of(caps_here()); }
std::vector<KernelCheck> check_cuda(const OwnOptions& own) { return cuda::verify::kernel_checks(own.cuda); }
RemoteKernels cuda_kernels_on(std::string_view gpu, const Config& config, const BackendOptions& options,
                              const OwnOptions& own, std::string_view source) {
  return cuda::kernels_on(gpu, config, options, own.cuda, source);
}
StepPrediction cuda_predict_on(std::string_view gpu, const PredictedModel& model, const OwnOptions& own,
                               const PredictedStep& step, const PredictedSharing& sharing) {
  return cuda::predict_on(gpu, model.config, model.formats, own.cuda, step, sharing);
}
KernelTrials try_cuda_kernels(const Config& config, const BackendOptions& options, const OwnOptions& own,
                              const TrialPlan& trials) {
  return cuda::try_kernels(config, options, own.cuda, trials);
}
#endif
bool cpu_takes_int8(const OwnOptions& own) { return cpu::takes_int8(own.cpu); }
bool cpu_runs_experts(Format format, const OwnOptions& own) { return cpu::runs_experts(format, own.cpu); }
bool any_experts(Format, const OwnOptions&) { return true; }

MemoryPlan plan_cpu(const Config& config, const BackendOptions& options, const OwnOptions& own) {
  return cpu::plan(config, options, own.cpu);
}
std::unique_ptr<Backend> make_cpu(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                                  const OwnOptions& own) {
  return cpu::make(std::move(weights), options, own.cpu);
}

// Wrap the functions of backends that have no options of their own: the table's functions take OwnOptions.
template <MemoryPlan (*function)(const Config&, const BackendOptions&)>
MemoryPlan plan(const Config& config, const BackendOptions& options, const OwnOptions&) {
  return function(config, options);
}
template <std::unique_ptr<Backend> (*function)(std::shared_ptr<const Weights>, const BackendOptions&)>
std::unique_ptr<Backend> make(std::shared_ptr<const Weights> weights, const BackendOptions& options,
                              const OwnOptions&) {
  return function(std::move(weights), options);
}

// Each instruction set adds in its own order, so results differ in the last bits. Nodes with different
// instruction sets could choose different experts for the same token.
RankTraits cpu_rank_traits(const OwnOptions& own) {
  return {fmt::format("cpu {}, experts in {}", cpu::name(cpu::isa_of(own.cpu.isa)),
                      cpu::takes_int8(own.cpu) ? "int8" : "float"),
          "none"};
}

GroupId no_group(const OwnOptions&) { return {}; }  // CPUs need no group id

double host_bandwidth(const OwnOptions&) {
  ThreadPool all_cores(0);
  return read_bandwidth(all_cores, make_cold_bytes(all_cores));
}

#if NIBBLE_CUDA
constexpr BackendRow kCuda{
    .name = "cuda",
    .what = "NVIDIA GPUs, one or several",
    .making = {.batch_sizes = &cuda_batch_sizes,
               .takes_expert_activations = false,
               .takes_blocks = &never,
               .why_no_adapters = &why_no_adapters_on_cuda,
               .runs_experts = &only_mxfp4,
               .why_not = &cuda::why_not,
               .check = &accept_all,
               .make = &make_cuda},
    .memory = {.plan = &plan_cuda, .read_bandwidth = &cuda_bandwidth},
    .accuracy = {.tolerance = &cuda_tolerance, .rounding = &no_rounding},
    .device = BackendDevice{.known_name = &cuda_known_name,
                            .facts = &cuda::device_facts,
                            .memory = &cuda_memory,
                            .plans = &plans_cuda,
                            .kernels_on = &cuda_kernels_on,
                            .predict_on = &cuda_predict_on,
                            .try_kernels = &try_cuda_kernels},
    .nodes = BackendNodes{.traits = &cuda_rank_traits, .new_group = &cuda_new_group},
    .verification = BackendVerification{.checks = &check_cuda, .probes = &cuda::verify::machine_probes}};
#endif

constexpr BackendRow kCpu{.name = "cpu",
                          .what = "all cores, dense weights as they are stored",
                          .making = {.batch_sizes = &host_batch_sizes,
                                     .takes_expert_activations = true,
                                     .takes_blocks = &cpu_takes_int8,
                                     .why_no_adapters = &nothing_against_adapters,
                                     .runs_experts = &cpu_runs_experts,
                                     .why_not = &nothing,
                                     .check = &check_isa,
                                     .make = &make_cpu},
                          .memory = {.plan = &plan_cpu, .read_bandwidth = &host_bandwidth},
                          .accuracy = {.tolerance = &cpu_tolerance, .rounding = &cpu_rounding},
                          .nodes = BackendNodes{.traits = &cpu_rank_traits, .new_group = &no_group},
                          .tuning = BackendTuning{.retune = &cpu::retune}};

constexpr BackendRow kReference{
    .name = "reference",
    .what = "plain loops in float32, slow: what the others are tested against",
    .making = {.batch_sizes = &host_batch_sizes,
               .takes_expert_activations = false,
               .takes_blocks = &always,
               .why_no_adapters = &nothing_against_adapters,
               .runs_experts = &any_experts,
               .why_not = &nothing,
               .check = &check_reference,
               .make = &make<&reference::make>},
    .memory = {.plan = &plan<&reference::plan>, .read_bandwidth = &host_bandwidth},
    .accuracy = {.tolerance = &float32_tolerance, .rounding = &no_rounding}};

constexpr BackendRow kBackends[] = {
#if NIBBLE_CUDA
    kCuda,
#endif
    kCpu, kReference};

}  // namespace

std::span<const BackendRow> all_backends() { return kBackends; }

const BackendRow& best_backend() {
  return *std::ranges::find_if(kBackends, [](const BackendRow& row) { return row.making.why_not().empty(); });
}

std::optional<DeviceFacts> device_facts(const BackendRow& backend) {
  return backend.device ? std::optional(backend.device->facts()) : std::nullopt;
}

std::string device_code() {
#if NIBBLE_CUDA
  return cuda::images_text();
#else
  return {};
#endif
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
        "--backend cuda: this program was built without CUDA; build it with the preset 'cuda' and nvcc 13");
#endif
  throw InputError("--backend '{}': expected one of {}", name, names);
}

}  // namespace nibble
