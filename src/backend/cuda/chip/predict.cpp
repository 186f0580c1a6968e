#include "backend/cuda/chip/predict.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "backend/cuda/chip/costs.h"
#include "backend/cuda/decode/stream_shape.h"
#include "backend/cuda/groups.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/prompt/prompt_warps.h"
#include "backend/cuda/row_input.h"
#include "core/error.h"

namespace nibble::cuda {
namespace {

constexpr double kMicro{1e6};

template <typename Integer>
double real(Integer value) {
  return static_cast<double>(value);
}
int ceiling(int count, int size) { return (count + size - 1) / size; }

template <typename Row, size_t size, typename Key>
const Row& row_of(const Row (&rows)[size], Key Row::*key, Key wanted) {
  return *std::find_if(std::begin(rows), std::end(rows), [&](const Row& row) { return row.*key == wanted; });
}

// One launch has so much to do.
struct LaunchWork {
  double bytes{0};        // weights and cache
  double activations{0};  // bytes of these that pass through memory, in prompts
  double slots{0}, products{0}, clocks{0};
  double balance{1};  // the longest share of a CTA over the mean
  Layout layout{Layout::kBf16};
};

// The tiles of 8 columns that a prompt's kernel takes for `columns`: 8 for every 64, and 2, 4, 6 or 8 for the rest.
int column_tiles(int columns) {
  const int rest = columns % kManyColumns;
  return columns / kManyColumns * (kManyColumns / 8) + (rest == 0 ? 0 : 2 * ceiling(rest, 16));
}

// Columns are spread over passes: `blocks` of up to 64, with `tiles` of 8 columns in all.
struct ColumnTiles {
  double blocks{0}, tiles{0};
};
ColumnTiles columns_of(int count) { return {real(ceiling(count, kManyColumns)), real(column_tiles(count))}; }

// The groups that the experts of a layer make of a prompt, expected of independent uniform routing: the pairs of an expert are then
// distributed binomially.
ColumnTiles expert_columns(const Config& config, int num_tokens) {
  const double p = real(config.experts_per_token) / config.num_experts;
  if (p >= 1)
    return {config.num_experts * columns_of(num_tokens).blocks,
            config.num_experts * columns_of(num_tokens).tiles};
  ColumnTiles sum;
  for (int pairs = 1; pairs <= num_tokens; ++pairs) {
    const double log_chance = std::lgamma(num_tokens + 1.0) - std::lgamma(pairs + 1.0) -
                              std::lgamma(num_tokens - pairs + 1.0) + pairs * std::log(p) +
                              (num_tokens - pairs) * std::log1p(-p);
    const double expected = config.num_experts * std::exp(log_chance);
    sum.blocks += expected * columns_of(pairs).blocks;
    sum.tiles += expected * columns_of(pairs).tiles;
  }
  return sum;
}

class StepModel {
 public:
  StepModel(const ChipSpeeds& chip, const Target& target, const Config& config, const StorageFormats& formats,
            const PredictedStep& step)
      : chip_(chip),
        target_(target),
        config_(config),
        formats_(formats),
        step_(step),
        is_prompt_(step.num_tokens > kFewTokens) {}

  std::vector<PredictedTime> operations() const {
    std::vector<PredictedTime> found;
    for (const OperationCost& row : step_costs(config_, formats_, step_.num_tokens, step_.context)) {
      if (row.operation == Operation::kUnembed && !step_.wants_next) continue;
      if (row.operation == Operation::kAttend) {
        if (step_.num_tokens > 1) found.push_back(repeated(Operation::kAppend, {}, config_.num_layers, 0));
        found.push_back(attend());
      } else {
        const int launches = launches_of(row.operation);
        LaunchWork work = work_of(row.operation);
        work.bytes = real(row.cost.bytes_touched()) / std::max(1, launches);
        found.push_back(repeated(row.operation, work, launches, row.cost.bytes_touched()));
      }
    }
    if (step_.wants_next) found.push_back(repeated(Operation::kSample, {}, 1, 0));
    return found;
  }

 private:
  bool has_norms() const { return step_.num_tokens > kOwnNorms; }
  int launches_of(Operation operation) const {
    if (operation == Operation::kEmbed || operation == Operation::kUnembed) return 1;
    if (operation == Operation::kRmsNorm) return has_norms() ? 2 * config_.num_layers : 0;
    return config_.num_layers;
  }

  LaunchWork work_of(Operation operation) const {
    const int h = config_.hidden, i = config_.intermediate, heads = config_.num_heads * config_.head_dim,
              kv = config_.num_kv_heads * config_.head_dim, t = step_.num_tokens;
    const double pairs = real(t) * config_.experts_per_token;
    switch (operation) {
      case Operation::kQkv:
        return dense(formats_.qkv, heads + 2 * kv, h, t, /*in=*/2, /*out=*/8);
      case Operation::kProject:
        return dense(formats_.attention_output, h, heads, t, 2, 12);
      case Operation::kRoute:
        return dense(Format::kBf16, config_.num_experts, h, t, 2, 4);
      case Operation::kUnembed:
        return few(formats_.unembedding, config_.vocab, h, 1);
      case Operation::kExpertsUp:
        return experts(2 * i, h, pairs * (2.0 * h + 2.0 * i));
      case Operation::kExpertsDown:
        return experts(h, i, pairs * (2.0 * i + 4.0 * h));
      case Operation::kRmsNorm: {
        // Reads the residual stream and what was left to be added to it: the experts' outputs, or a second part. Writes both.
        LaunchWork work;
        if (has_norms()) work.activations = real(t) * h * (4.0 + 2.0 * (config_.experts_per_token + 1) + 6.0);
        return work;
      }
      default:
        return {};
    }
  }

  // A matrix that is streamed past up to 8 columns at a time, so many times.
  LaunchWork few(Format weights, int rows, int cols, double passes) const {
    LaunchWork work;
    work.layout = layout_of(weights);
    const Strips strips = make_strips(work.layout, rows, cols);
    const double tiles = real(strips.num_strips) * strips.num_tiles * passes;
    work.slots = tiles * row_of(kLoopCosts, &LoopCost::layout, work.layout).few;
    work.products = 4 * tiles;
    return work;
  }

  LaunchWork many(Format weights, int rows, int cols, const ColumnTiles& columns) const {
    LaunchWork work;
    work.layout = layout_of(weights);
    const LoopCost& loop = row_of(kLoopCosts, &LoopCost::layout, work.layout);
    const Strips strips = make_strips(work.layout, rows, cols);
    const double tiles = real(strips.num_strips) * strips.num_tiles;
    work.slots = tiles * (columns.blocks * loop.many + columns.tiles * loop.many_columns);
    work.products = 4 * tiles * columns.tiles;
    const double items = ceiling(strips.num_strips, prompt_row_warps(work.layout)) *
                         std::ceil(columns.blocks / prompt_column_warps(work.layout));
    work.balance = std::ceil(items / target_.num_multiprocessors) * target_.num_multiprocessors / items;
    return work;
  }

  // A dense matrix, with activations of so many bytes in and out for each column and row.
  LaunchWork dense(Format weights, int rows, int cols, int num_tokens, double in, double out) const {
    if (!is_prompt_) return few(weights, rows, cols, ceiling(num_tokens, kMaxColumns));
    LaunchWork work = many(weights, rows, cols, columns_of(num_tokens));
    // Every block of rows reads all tokens, from L2 if that holds them.
    const double read = in * num_tokens * cols;
    const int row_blocks = ceiling(ceiling(rows, kStripRows), prompt_row_warps(work.layout));
    work.activations = read * (read > real(chip_.cache_bytes) ? row_blocks : 1) + out * num_tokens * rows;
    return work;
  }

  LaunchWork experts(int rows, int cols, double activations) const {
    if (!is_prompt_) {
      const int num_tokens = step_.num_tokens;
      return few(Format::kMxfp4, rows, cols,
                 expected_experts_hit(config_.num_experts, config_.experts_per_token, num_tokens));
    }
    LaunchWork work = many(Format::kMxfp4, rows, cols, expert_columns(config_, step_.num_tokens));
    work.activations = activations;
    return work;
  }

  PredictedTime attend() const {
    PredictedTime sum{.operation = Operation::kAttend};
    for (const LayerKind kind : config_.layer_kinds) {
      const int window = kind == LayerKind::kSliding ? config_.window : 0;
      const Cost attended =
          cost(Attend{step_.num_tokens, step_.context, window, config_.num_heads, config_.num_kv_heads,
                      config_.head_dim, formats_.vectors, formats_.kv});
      LaunchWork work;
      work.bytes = real(attended.bytes_touched());
      if (is_prompt_) {
        constexpr double kFlops{2.0 * 16 * 8 * 16};  // of a product, whose rows are two tokens' heads
        const double heads = real(config_.num_heads) / config_.num_kv_heads;
        work.products = real(attended.flops) / kFlops * 8 / heads * kAttendProductShare;
        work.slots = work.products * kAttendInstructionsPerProduct;
        work.activations = real(step_.num_tokens) * config_.num_heads * config_.head_dim * (8 + 2);
      } else {
        const int reach = window == 0 ? step_.context : std::min(step_.context, window);
        work.clocks = real(ceiling(reach, kPagePositions)) * config_.num_kv_heads * step_.num_tokens *
                      kAttendClocksPerPage;
      }
      sum += launch(Operation::kAttend, work, attended.bytes_touched());
    }
    return sum;
  }

  double bandwidth(Layout layout) const {
    const int hidden = config_.hidden, columns = std::min(step_.num_tokens, kMaxColumns);
    const StreamShape shape =
        stream_shape(target_.budget, make_strips(layout, hidden, hidden), hidden, columns, 1);
    const double ring = real(shape.of.warps * shape.of.slots * slot_bytes(layout));
    return std::min(kReadUse * chip_.read_bandwidth, target_.num_multiprocessors * ring / kSlotSeconds);
  }

  PredictedTime launch(Operation operation, const LaunchWork& work, size_t bytes) const {
    const SerialCost& serial = row_of(kSerialCosts, &SerialCost::operation, operation);
    const double slower = kSerialHz / chip_.clock_hz, clocks = target_.num_multiprocessors * chip_.clock_hz;
    PredictedTime time{.operation = operation, .num_launches = 1, .bytes = bytes};
    time.memory = (work.bytes + work.activations) / bandwidth(work.layout) * kMicro;
    time.issue = (work.balance * work.slots / (4 * kIssueUse) + work.clocks) / clocks * kMicro;
    const bool by_wgmma = is_prompt_ && multiplies_by_wgmma(target_) && operation != Operation::kAttend;
    const double rate =
        std::min(chip_.products_per_clock * kProductUse, by_wgmma ? kMostProductsByWgmma : kMostProducts);
    time.products = work.balance * work.products / (rate * clocks) * kMicro;
    const double prologue = serial.prologue * slower;
    const double longest = std::max({time.memory, time.issue, time.products});
    time.serial = serial.serial * slower + (target_.has_dependent_launch ? 0 : kWithoutDependentLaunch) +
                  std::max(time.memory, prologue + std::max(time.issue, time.products)) - longest;
    return time;
  }

  PredictedTime repeated(Operation operation, const LaunchWork& work, int launches, size_t bytes) const {
    if (launches == 0)
      return {
          .operation = operation, .bytes = bytes, .memory = real(bytes) / bandwidth(work.layout) * kMicro};
    PredictedTime time = launch(operation, work, bytes);
    for (double* part : {&time.memory, &time.issue, &time.products, &time.serial}) *part *= launches;
    time.num_launches = launches;
    return time;
  }

  const ChipSpeeds& chip_;
  const Target& target_;
  const Config& config_;
  const StorageFormats& formats_;
  const PredictedStep& step_;
  bool is_prompt_;
};

}  // namespace

std::vector<PredictedTime> predict(const ChipSpeeds& chip, const Target& target, const Config& config,
                                   const StorageFormats& formats, const PredictedStep& step) {
  return StepModel(chip, target, config, formats, step).operations();
}

namespace {

PredictedLink link_of(std::string_view gpu, const PredictedCount& count) {
  const ChipLink known = known_link(gpu);
  const auto* const found =
      std::find(std::begin(kCountsOfLinks), std::end(kCountsOfLinks), count.num_devices);
  if (known.bandwidth == 0 || found == std::end(kCountsOfLinks))
    throw InputError("--count {}: how so many of {} are linked is not known", count.num_devices,
                     known_gpu(gpu).name);
  const double seconds = count.sum_seconds.value_or(known.sum_seconds[found - std::begin(kCountsOfLinks)]);
  if (seconds == 0 && !count.sum_seconds)
    throw InputError(
        "--count {}: how long so many of {} take for a sum is not known: say it, --sum-latency US",
        count.num_devices, known_gpu(gpu).name);
  return {known.bandwidth, seconds, known.is_measured && count.num_devices == 2, known.source};
}

// The largest share of one of several GPUs.
Config share_of(const Config& config, int num_gpus) {
  if (config.num_kv_heads % num_gpus != 0)
    throw InputError("--count {}: {} heads of keys and values can't be shared evenly", num_gpus,
                     config.num_kv_heads);
  Config share = config;
  share.num_heads /= num_gpus;
  share.num_kv_heads /= num_gpus;
  // Experts are cut between tiles, so that no share has half a tile.
  share.intermediate = ceiling(ceiling(config.intermediate, kTileCols), num_gpus) * kTileCols;
  share.vocab = ceiling(ceiling(config.vocab, kStripRows), num_gpus) * kStripRows;
  return share;
}

// Microseconds of a sum over the GPUs of a step's rows.
double sum_microseconds(const PredictedLink& link, int num_gpus, const Config& config, int num_tokens) {
  const double bytes = 4.0 * num_tokens * config.hidden, others = num_gpus - 1, a = link.sum_seconds,
               w = link.bandwidth;
  const double few = std::min(a + others * bytes / w, 2 * a + 2 * others / num_gpus * bytes / w),
               many = 2 * a + others / num_gpus * 1.5 * bytes / w;
  return (num_tokens > kFewTokens ? std::min(few, many) : few) * kMicro;
}

}  // namespace

StepPrediction predict_on(std::string_view gpu, const Config& config, const StorageFormats& formats,
                          const CudaOptions& own, const PredictedStep& step, const PredictedCount& count) {
  const DeviceCaps caps = known_gpu(gpu);
  const ChipSpeeds chip = known_speeds(gpu);
  StepPrediction found{{describe(caps), chip.read_bandwidth, chip.is_read_measured, chip.source}, {}};
  if (count.num_devices == 1) {
    found.operations = predict(chip, target_of(caps, own), config, formats, step);
    return found;
  }
  found.link = link_of(gpu, count);
  found.operations = predict(chip, target_of(caps, own), share_of(config, count.num_devices), formats, step);
  const double sum =
      config.num_layers * sum_microseconds(found.link, count.num_devices, config, step.num_tokens);
  for (PredictedTime& row : found.operations)
    if (row.operation == Operation::kProject || row.operation == Operation::kExpertsDown) {
      row.serial += sum;
      found.sums += sum;
    }
  return found;
}

}  // namespace nibble::cuda
