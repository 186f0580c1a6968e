#include "backend/cuda/predict/predict.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/predict/costs.h"
#include "core/errors/error.h"
#include "model/shares/share.h"

namespace nibble::cuda {
namespace {

constexpr double kMicro{1e6};

template <typename Integer>
double real(Integer value) {
  return static_cast<double>(value);
}

// Rates that kernels reach on a chip, per microsecond: bytes read, weights converted, floating-point
// operations.
struct Reached {
  double bytes, cache_bytes, weights, flops, attend_flops, block_flops;
  double launch_microseconds;
};

// Returns how many columns of activations (k of the mma) one block-scaled instruction multiplies.
double columns_per_product(BlockFormat format) {
  switch (format) {
    case BlockFormat::kMxfp8x2:
      return 16;  // 32 columns take two instructions, because each number has two terms
    case BlockFormat::kMxfp8:
      return 32;
    case BlockFormat::kMxfp4:
      break;
  }
  return 64;
}

Reached reached_by(const ChipSpeeds& chip, const Target& target,
                   std::optional<BlockFormat> prompt_activations) {
  constexpr double kFlopsPerColumn{2.0 * 16 * 8}, kFlopsPerProduct{16 * kFlopsPerColumn};
  const double clocks = target.num_multiprocessors * chip.clock_hz / kMicro,
               products = chip.products_per_clock, by_mma = std::min(kMmaShare * products, kMostMmaProducts),
               by_blocks = std::min(kMmaShare * chip.block_products_per_clock, kMostMmaProducts);
  const bool by_wgmma = multiplies_by_wgmma(target);
  return {kReadShare * chip.read_bandwidth / kMicro,
          kCacheShare * chip.read_bandwidth / kMicro,
          kWeightsPerClock * clocks,
          (by_wgmma ? kWgmmaShare * products : by_mma) * kFlopsPerProduct * clocks,
          (by_wgmma ? kWgmmaAttendShare * products : by_mma) * kFlopsPerProduct * clocks,
          prompt_activations ? by_blocks * columns_per_product(*prompt_activations) * kFlopsPerColumn * clocks
                             : 0,
          (kLaunchSeconds + (target.has_dependent_launch ? 0 : kLaunchApartSeconds)) * kMicro};
}

int launches_of(Operation operation, const Config& config, int num_rows, int num_gpus) {
  switch (operation) {
    case Operation::kEmbed:
    case Operation::kUnembed:
    case Operation::kSample:
      return 1;
    case Operation::kRmsNorm:  // with several GPUs, the all-reduces compute all norms but the first
      if (num_rows <= kFusedNormRows) return 0;
      return num_gpus > 1 ? 1 : 2 * config.num_layers;
    default:
      return config.num_layers;
  }
}

// Returns the bytes of activations that an operation reads and writes in a step. Each number counts as 4
// bytes: a few numbers are float32; most are bfloat16, but are read or written twice.
double activation_bytes(Operation operation, const Config& config, const PredictedStep& step) {
  const int h = config.hidden, q = config.num_heads * config.head_dim,
            kv = config.num_kv_heads * config.head_dim, k = config.experts_per_token;
  const double layers = 4.0 * config.num_layers * step.num_rows();
  switch (operation) {
    case Operation::kRmsNorm:
      return layers * (4 + k) * h;  // the norm before attention adds k outputs of experts per row
    case Operation::kQkv:
      return layers * (h + q + 2 * kv);
    case Operation::kAttend:
      return layers * 2 * q;
    case Operation::kProject:
      return layers * (q + h);
    case Operation::kExpertsUp:
    case Operation::kExpertsDown:
      return layers * k * (h + config.intermediate);
    case Operation::kUnembed:
    case Operation::kSample:
      return 4.0 * config.vocab * step.num_sequences;
    default:
      return 0;
  }
}

// Returns the load of a GPU that has all experts, or an equal part of every expert.
ExpertLoad load_of_all(const Config& config, const PredictedStep& step) {
  const int rows = step.num_rows();
  return {expected_experts_hit(config.num_experts, config.experts_per_token, rows),
          real(rows) * config.experts_per_token};
}

// A GPU's share of the model, described as a smaller model, and the load of its experts.
struct OwnModel {
  const Config& config;
  ExpertLoad load;
  int num_gpus;
};

// Returns whether --prompt-activations applies to an operation of the step.
bool can_scale_blocks(Operation operation, const StorageFormats& formats, const PredictedStep& step) {
  const auto are = [&](Format weights, int num_rows) {
    return weights == Format::kMxfp4 && num_rows > kUnscaledRows;
  };
  switch (operation) {
    case Operation::kQkv:
      return are(formats.qkv, step.num_rows());
    case Operation::kProject:
      return are(formats.attention_output, step.num_rows());
    case Operation::kExpertsUp:
    case Operation::kExpertsDown:
      return are(formats.experts, step.num_rows());
    case Operation::kUnembed:
      return are(formats.unembedding, step.num_sequences);
    default:
      return false;
  }
}

// Adds to `project` the launch and the transfers with which its input is quantised in every layer.
void add_quantising(PredictedTime& project, const Reached& reached, const Config& config, int num_rows) {
  // Bytes per number: 2 to read it as bfloat16, 1 to write it quantised, and 1 to read it again.
  constexpr double kBytes{4};
  project.num_launches += config.num_layers;
  project.serial += config.num_layers * reached.launch_microseconds;
  project.memory +=
      kBytes * config.num_layers * num_rows * config.num_heads * config.head_dim / reached.bytes;
}

std::vector<PredictedTime> operations_of(const Reached& reached, const OwnModel& model,
                                         const StorageFormats& formats, const PredictedStep& step) {
  const auto costs_in = [&](const StorageFormats& stored) {
    return step_costs(model.config, stored, step.num_tokens, step.context, step.num_sequences);
  };
  // kOne has one byte per weight, so with it step_costs() returns the number of weights as bytes.
  constexpr Format kOne{Format::kE4m3};
  const std::vector<OperationCost> costs = costs_in(formats),
                                   weights = costs_in({kOne, kOne, kOne, kOne, kOne, kOne});
  const ExpertLoad all = load_of_all(model.config, step);
  const auto launches = [&](Operation operation) {
    const int count = launches_of(operation, model.config, step.num_rows(), model.num_gpus);
    return PredictedTime{.operation = operation,
                         .num_launches = count,
                         .memory = activation_bytes(operation, model.config, step) / reached.bytes,
                         .serial = count * reached.launch_microseconds};
  };
  std::vector<PredictedTime> found;
  for (size_t i = 0; i < costs.size(); ++i) {
    const auto& [operation, cost] = costs[i];
    if (operation == Operation::kUnembed && !step.wants_next) continue;
    const bool attends = operation == Operation::kAttend,
               is_of_experts = operation == Operation::kExpertsUp || operation == Operation::kExpertsDown;
    const double hit = is_of_experts ? model.load.hit / all.hit : 1,
                 pairs = is_of_experts ? model.load.pairs / all.pairs : 1;
    if (attends && step.num_tokens > 1) found.push_back(launches(Operation::kAppend));
    PredictedTime time = launches(operation);
    time.bytes = static_cast<size_t>(hit * real(cost.bytes_touched()));
    time.memory += real(time.bytes) / (attends && step.num_tokens == 1 ? reached.cache_bytes : reached.bytes);
    time.issue = hit * real(weights[i].cost.weight_bytes) / reached.weights;
    const bool scales_blocks = reached.block_flops > 0 && can_scale_blocks(operation, formats, step);
    time.products = pairs * real(cost.flops) /
                    (attends         ? reached.attend_flops
                     : scales_blocks ? reached.block_flops
                                     : reached.flops);
    if (scales_blocks && operation == Operation::kProject)
      add_quantising(time, reached, model.config, step.num_rows());
    found.push_back(time);
  }
  if (step.wants_next) found.push_back(launches(Operation::kSample));
  return found;
}

PredictedLink link_of(std::string_view gpu, int num_gpus, std::optional<double> sum_seconds) {
  const ChipLink known = known_link(gpu);
  const auto* const found = std::ranges::find(kCountsOfLinks, num_gpus);
  if (known.bandwidth == 0 || found == std::end(kCountsOfLinks))
    throw InputError("--count {}: the link between that number of {} is unknown", num_gpus,
                     known_gpu(gpu).name);
  const double seconds = sum_seconds.value_or(known.sum_seconds[found - std::begin(kCountsOfLinks)]);
  if (seconds == 0 && !sum_seconds)
    throw InputError(
        "--count {}: the latency of an all-reduce over that number of {} is unknown: set --sum-latency US",
        num_gpus, known_gpu(gpu).name);
  return {known.bandwidth, seconds, known.is_measured && num_gpus == 2, known.source};
}

// Returns the microseconds of one all-reduce. For each number, a float32 term (4 bytes) is sent to the GPU
// that adds up the row, and a bfloat16 result (2 bytes) is sent back. A layer has two all-reduces.
double sum_microseconds(const PredictedLink& link, int num_gpus, int hidden, int num_rows) {
  constexpr double kNumberBytes{6};
  const double sent = kNumberBytes * (num_gpus - 1) / num_gpus * num_rows * hidden;
  return (link.sum_seconds + sent / link.bandwidth) * kMicro;
}

// Returns the config of a smaller model that stands for a share of the model: its vocab is the share's number
// of rows of lm_head. The config does not contain the load of the share's experts, which load_of() returns.
Config model_of(const Config& whole, const Share& share) {
  Config config = config_of(whole, share);
  config.vocab = share.vocab.count;
  config.own_experts.reset();
  return config;
}

ExpertLoad load_of(const Config& config, std::span<const Share> shares, ExpertSplit split,
                   const PredictedStep& step) {
  if (split == ExpertSplit::kUnits) return load_of_all(config, step);
  std::vector<int> counts;
  for (const Share& share : shares) counts.push_back(share.experts.count);
  return largest_load(counts, config.experts_per_token, step.num_rows());
}

}  // namespace

StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step,
                          const PredictedSharing& sharing) {
  const DeviceCaps caps = known_gpu(gpu);
  const ChipSpeeds chip = known_speeds(gpu);
  if (own.prompt_activations && !caps.has_block_products)
    throw InputError(
        "--prompt-activations: {} has no block-scaled products. Software replaces them there, which is slow "
        "and is not predicted; leave the flag out",
        caps.name);
  const Reached reached = reached_by(chip, target_of(caps, own), own.prompt_activations);
  const int num_gpus = own.num_ranks();
  StepPrediction found{{describe(caps), chip.read_bandwidth, chip.is_read_measured, chip.source,
                        caps.total_bytes, caps.is_integrated},
                       {}};
  if (num_gpus == 1) {
    found.operations = operations_of(reached, {config, load_of_all(config, step), 1}, formats, step);
    return found;
  }
  found.link = link_of(gpu, num_gpus, sharing.sum_seconds);
  const std::vector<Share> shares = shares_of(config, own.parts, "the model", {"--count", sharing.split});
  found.load = load_of(config, shares, sharing.split, step);
  double longest = 0;
  for (const Share& share : shares) {
    const Config own_config = model_of(config, share);
    std::vector<PredictedTime> operations =
        operations_of(reached, {own_config, found.load, num_gpus}, formats, step);
    const double time = total_of(operations);
    if (time > longest) found.operations = std::move(operations);
    longest = std::max(longest, time);
  }
  const double sum =
      config.num_layers * sum_microseconds(found.link, num_gpus, config.hidden, step.num_rows());
  for (PredictedTime& row : found.operations)
    if (row.operation == Operation::kProject || row.operation == Operation::kExpertsDown) {
      row.serial += sum;
      found.sums += sum;
    }
  return found;
}

}  // namespace nibble::cuda
