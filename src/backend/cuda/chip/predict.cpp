#include "backend/cuda/chip/predict.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "backend/cuda/chip/costs.h"
#include "backend/cuda/decode/stream_shape.h"
#include "backend/cuda/groups.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/layout/layout_of.h"
#include "backend/cuda/prompt/prompt_warps.h"
#include "backend/cuda/ranks/protocol.h"
#include "backend/cuda/step/row_input.h"
#include "core/check.h"
#include "core/error.h"
#include "model/shares/share.h"

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
  for (const Row& row : rows)
    if (row.*key == wanted) return row;
  NIBBLE_CHECK(false, "{}", static_cast<int>(wanted));
}

// The work of one launch.
struct LaunchWork {
  double bytes{0};        // weights and cache
  double activations{0};  // bytes of activations that pass through memory, in prompts
  double slots{0}, products{0}, clocks{0};
  double balance{1};  // largest share of a CTA over the mean
  double issue_use{kIssueUse};
  // Microseconds, at the clock of a Hopper, of the longest CTA's tiles, one after another.
  double chain{0};
  double serial{0};  // microseconds, at the same clock, besides those of the operation
  Layout layout{Layout::kBf16};
};

// Returns the tiles of 8 columns that a prefill kernel takes for `columns`: 8 per 64, and 2, 4, 6 or 8 for
// the rest.
int column_tiles(int columns) {
  const int rest = columns % kManyColumns;
  return columns / kManyColumns * (kManyColumns / 8) + (rest == 0 ? 0 : 2 * ceiling(rest, 16));
}

// Columns divided into passes: `blocks` of up to 64, with `tiles` of 8 columns in total.
struct ColumnTiles {
  double blocks{0}, tiles{0};
};
ColumnTiles columns_of(int count) { return {real(ceiling(count, kManyColumns)), real(column_tiles(count))}; }

// The columns of a wgmma step whose groups have kBatchColumns columns.
ColumnTiles batch_columns_of(int count) {
  static_assert(kBatchColumns == 8);
  const double groups = real(ceiling(count, kBatchColumns));
  return {groups, groups};
}

// The column groups of all experts of a layer in a step, expected for independent uniform routing: the number
// of pairs of an expert is then binomial. `columns_of`: the groups of an expert with that many pairs.
template <typename F>
ColumnTiles expert_columns(const Config& config, int num_tokens, const F& columns_of) {
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

// The load of a device that has all experts, or a part of each.
ExpertLoad load_of_all(const Config& config, const PredictedStep& step) {
  const int rows = step.num_rows();
  return {expected_experts_hit(config.num_experts, config.experts_per_token, rows),
          real(rows) * config.experts_per_token};
}

class StepModel {
 public:
  StepModel(const ChipSpeeds& chip, const Target& target, const Config& config, const StorageFormats& formats,
            const PredictedStep& step, const ExpertLoad& load)
      : chip_(chip),
        target_(target),
        config_(config),
        formats_(formats),
        step_(step),
        rows_(step.num_rows()),
        load_(load),
        all_(load_of_all(config, step)),
        by_wgmma_(multiplies_by_wgmma(target)),
        is_many_(rows_ > most_few()),
        is_batch_(rows_ > 1 && (by_wgmma_ ? rows_ < kManyTokens : !is_many_)) {}

  std::vector<PredictedTime> operations() const {
    std::vector<PredictedTime> found;
    for (const OperationCost& row :
         step_costs(config_, formats_, step_.num_tokens, step_.context, step_.num_sequences)) {
      if (row.operation == Operation::kUnembed && !step_.wants_next) continue;
      if (row.operation == Operation::kAttend) {
        if (step_.num_tokens > 1) found.push_back(repeated(Operation::kAppend, {}, config_.num_layers, 0));
        found.push_back(attend());
      } else {
        const int launches = launches_of(row.operation);
        LaunchWork work = work_of(row.operation);
        double bytes = real(row.cost.bytes_touched());
        if (row.operation == Operation::kExpertsUp || row.operation == Operation::kExpertsDown)
          bytes *= load_.hit / all_.hit;
        work.bytes = bytes / std::max(1, launches);
        found.push_back(repeated(row.operation, work, launches, static_cast<size_t>(bytes)));
      }
    }
    if (step_.wants_next) found.push_back(repeated(Operation::kSample, sample(), 1, 0));
    return found;
  }

 private:
  // The maximum rows for which the kernels for few tokens run.
  int most_few() const { return by_wgmma_ ? kMaxColumns : kFewTokens; }
  bool has_norms() const { return rows_ > kOwnNorms; }
  int launches_of(Operation operation) const {
    if (operation == Operation::kEmbed || operation == Operation::kUnembed) return 1;
    if (operation == Operation::kRmsNorm)  // the router's launch may compute the second norm of a layer
      return has_norms() ? (is_batch_ && rows_ <= kRouterNorms ? 1 : 2) * config_.num_layers : 0;
    return config_.num_layers;
  }

  LaunchWork work_of(Operation operation) const {
    const int h = config_.hidden, i = config_.intermediate, heads = config_.num_heads * config_.head_dim,
              kv = config_.num_kv_heads * config_.head_dim, t = rows_;
    const bool is_narrow = t <= kNarrowTokens, is_split = t <= kSplitTokens;
    switch (operation) {
      case Operation::kQkv:
        return dense(formats_.qkv, heads + 2 * kv, h, t, /*out=*/8, is_narrow, is_split);
      case Operation::kProject:
        return dense(formats_.attention_output, h, heads, t, 12, is_narrow, is_split);
      case Operation::kRoute:
        if (is_batch_) return few(Format::kBf16, config_.num_experts, h, ceiling(t, kMaxColumns));
        return dense(Format::kBf16, config_.num_experts, h, t, 4, true);
      case Operation::kUnembed:
        if (step_.num_sequences > most_few())
          return dense(formats_.unembedding, config_.vocab, h, step_.num_sequences, 4, true);
        return few(formats_.unembedding, config_.vocab, h, ceiling(step_.num_sequences, kMaxColumns));
      case Operation::kExpertsUp:
        return experts(2 * i, h, load_.pairs * (2.0 * h + 2.0 * i));
      case Operation::kExpertsDown:
        return experts(h, i, load_.pairs * (2.0 * i + 4.0 * h));
      case Operation::kRmsNorm: {
        // Reads the residual stream and what must still be added to it: the experts' outputs, or a second
        // part. Writes the sum and the norm.
        LaunchWork work;
        if (has_norms()) work.activations = real(t) * h * (4.0 + 2.0 * (config_.experts_per_token + 1) + 6.0);
        return work;
      }
      default:
        return {};
    }
  }

  // A matrix that is streamed `passes` times, for up to 8 columns each.
  LaunchWork few(Format weights, int rows, int cols, double passes) const {
    LaunchWork work;
    work.layout = layout_of(weights);
    const Strips strips = make_strips(work.layout, rows, cols);
    const double tiles = real(strips.num_strips) * strips.num_tiles * passes;
    work.slots = tiles * row_of(kLoopCosts, &LoopCost::layout, work.layout).few;
    work.products = 4 * tiles;
    return work;
  }

  // Every expert that is hit has a first block of columns; the number of further blocks depends on its pairs.
  template <typename F>
  ColumnTiles own_columns(const F& columns_of_pairs) const {
    const ColumnTiles sum = expert_columns(config_, rows_, columns_of_pairs), first = columns_of_pairs(1);
    const double more = load_.pairs / all_.pairs;
    return {first.blocks * load_.hit + more * (sum.blocks - first.blocks * all_.hit),
            first.tiles * load_.hit + more * (sum.tiles - first.tiles * all_.hit)};
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

  // The product with a narrow strip of rows per CTA.
  void make_narrow(LaunchWork& work, int rows, int cols, int num_tokens) const {
    const double items = ceiling(rows, kNarrowRows) * real(ceiling(num_tokens, kManyColumns)),
                 column_tiles = ceiling(std::min(num_tokens, kManyColumns), 8);
    work.balance = 1;
    work.chain = std::ceil(items / target_.num_multiprocessors) * ceiling(cols, kTileCols) *
                 (kNarrowTile + kNarrowColumns * column_tiles);
  }

  // The product with one segment per CTA at a time. The sums of all segments are written, and a second kernel
  // adds them.
  void share_contraction(LaunchWork& work, int rows, int cols, int num_tokens) const {
    const Strips strips = make_strips(work.layout, rows, cols);
    const double items = real(ceiling(rows, kNarrowRows)) * strips.num_segments;
    work.chain *=
        std::ceil(items / (kSplitCtas * target_.num_multiprocessors)) * strips.segment_tiles /
        (std::ceil(ceiling(rows, kNarrowRows) / real(target_.num_multiprocessors)) * strips.num_tiles);
    work.activations += 2 * real(sizeof(float)) * num_tokens * rows * strips.num_segments;
    work.serial = kJoin;
  }

  // A dense matrix with `out` bytes of output per column and row. `is_narrow`: wgmma multiplies narrow
  // strips; `is_split`: the contraction is split too.
  LaunchWork dense(Format weights, int rows, int cols, int num_tokens, double out, bool is_narrow,
                   bool is_split = false) const {
    if (!is_many_) return few(weights, rows, cols, ceiling(num_tokens, kMaxColumns));
    LaunchWork work = many(weights, rows, cols, columns_of(num_tokens));
    if (by_wgmma_ && is_narrow) make_narrow(work, rows, cols, num_tokens);
    // Every block of rows reads all tokens, from L2 if they fit.
    const double read = 2.0 * num_tokens * cols;
    const int row_blocks = ceiling(ceiling(rows, kStripRows), prompt_row_warps(work.layout));
    work.activations = read * (read > real(chip_.cache_bytes) ? row_blocks : 1) + out * num_tokens * rows;
    if (by_wgmma_ && is_split) share_contraction(work, rows, cols, num_tokens);
    return work;
  }

  LaunchWork experts(int rows, int cols, double activations) const {
    LaunchWork work;
    if (!is_many_) {
      work = few(Format::kMxfp4, rows, cols, load_.hit);
    } else if (is_batch_) {
      work.layout = Layout::kMxfp4;
      const ColumnTiles columns = own_columns(batch_columns_of);
      const Strips strips = make_strips(work.layout, rows, cols);
      const double tiles = real(strips.num_strips) * strips.num_tiles;
      work.slots = tiles * columns.blocks * row_of(kLoopCosts, &LoopCost::layout, work.layout).batch;
      work.products = 4 * tiles * columns.tiles;
      work.activations = activations;
    } else {
      work = many(Format::kMxfp4, rows, cols, own_columns(columns_of));
      work.activations = activations;
    }
    if (is_batch_) {
      work.issue_use = is_many_ ? kBatchIssueUse : kFewIssueUse;
      work.serial = kNextExpert;
    }
    return work;
  }

  LaunchWork sample() const {
    LaunchWork work;
    work.activations = 4.0 * config_.vocab * step_.num_sequences;
    return work;
  }

  PredictedTime attend() const {
    PredictedTime sum{.operation = Operation::kAttend};
    const bool is_tiled = step_.num_tokens >= kMinTiledRows;
    for (const LayerKind kind : config_.layer_kinds) {
      const int window = kind == LayerKind::kSliding ? config_.window : 0;
      const Cost attended =
          cost(Attend{step_.num_tokens, step_.context, window, config_.num_heads, config_.num_kv_heads,
                      config_.head_dim, formats_.vectors, formats_.kv});
      const size_t bytes =
          attended.weight_bytes + attended.kv_bytes * static_cast<size_t>(step_.num_sequences);
      LaunchWork work;
      work.bytes = real(bytes);
      if (is_tiled) {
        constexpr double kFlops{2.0 * 16 * 8 * 16};  // per product; its rows are the heads of two tokens
        const double heads = real(config_.num_heads) / config_.num_kv_heads;
        work.products = step_.num_sequences * real(attended.flops) / kFlops * 8 / heads * kAttendProductShare;
        work.slots = work.products * (by_wgmma_ ? kAttendInstructionsByWgmma : kAttendInstructionsPerProduct);
        work.activations = real(rows_) * config_.num_heads * config_.head_dim * (8 + 2);
      } else {
        const int reach = window == 0 ? step_.context : std::min(step_.context, window);
        work.clocks =
            real(ceiling(reach, kPagePositions)) * config_.num_kv_heads * rows_ * kAttendClocksPerPage;
      }
      sum += launch(Operation::kAttend, work, bytes);
    }
    return sum;
  }

  double bandwidth(Layout layout) const {
    const int hidden = config_.hidden, columns = std::min(rows_, kMaxColumns);
    const StreamShape shape =
        stream_shape(target_.budget, make_strips(layout, hidden, hidden), hidden, columns, 1);
    const double ring = real(shape.of.warps * shape.of.slots * slot_bytes(layout));
    return std::min(kReadUse * chip_.read_bandwidth, target_.num_multiprocessors * ring / kSlotSeconds);
  }

  SerialCost serial_of(Operation operation) const {
    SerialCost cost = row_of(kSerialCosts, &SerialCost::operation, operation);
    if (operation == Operation::kRoute && has_norms()) cost.serial = kRouteAlone;
    if (!has_norms() && operation == Operation::kQkv) cost.serial += (rows_ - 1) * kNormOfRow;
    if (operation == Operation::kUnembed && step_.num_sequences <= (by_wgmma_ ? kOwnNorms : most_few()))
      cost.serial += (step_.num_sequences - 1) * kNormOfRow;
    return cost;
  }

  PredictedTime launch(Operation operation, const LaunchWork& work, size_t bytes) const {
    const SerialCost serial = serial_of(operation);
    const double slower = kSerialHz / chip_.clock_hz, clocks = target_.num_multiprocessors * chip_.clock_hz;
    PredictedTime time{.operation = operation, .num_launches = 1, .bytes = bytes};
    time.memory = (work.bytes + work.activations) / bandwidth(work.layout) * kMicro;
    time.issue = (work.balance * work.slots / (4 * work.issue_use) + work.clocks) / clocks * kMicro;
    const double use_by_wgmma =
        operation == Operation::kAttend ? kAttendProductUseByWgmma : kProductUseByWgmma;
    const double rate = is_many_ && by_wgmma_
                            ? chip_.products_per_clock * use_by_wgmma
                            : std::min(chip_.products_per_clock * kProductUse, kMostProducts);
    time.products = std::max(work.balance * work.products / (rate * clocks) * kMicro, work.chain * slower);
    const double prologue = serial.prologue * slower;
    const double longest = std::max({time.memory, time.issue, time.products});
    time.serial = (serial.serial + work.serial) * slower +
                  (target_.has_dependent_launch ? 0 : kWithoutDependentLaunch) +
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
  int rows_;
  ExpertLoad load_, all_;  // those of this device; those of all experts
  bool by_wgmma_, is_many_;
  bool is_batch_;  // expert kernels whose groups have few columns (kBatchColumns or fewer) run
};

}  // namespace

std::vector<PredictedTime> predict(const ChipSpeeds& chip, const Target& target, const Config& config,
                                   const StorageFormats& formats, const PredictedStep& step) {
  return StepModel(chip, target, config, formats, step, load_of_all(config, step)).operations();
}

namespace {

PredictedLink link_of(std::string_view gpu, int num_gpus, std::optional<double> sum_seconds) {
  const ChipLink known = known_link(gpu);
  const auto* const found = std::find(std::begin(kCountsOfLinks), std::end(kCountsOfLinks), num_gpus);
  if (known.bandwidth == 0 || found == std::end(kCountsOfLinks))
    throw InputError("--count {}: how so many of {} are linked is not known", num_gpus, known_gpu(gpu).name);
  const double seconds = sum_seconds.value_or(known.sum_seconds[found - std::begin(kCountsOfLinks)]);
  if (seconds == 0 && !sum_seconds)
    throw InputError(
        "--count {}: how long so many of {} take for a sum is not known: say it, --sum-latency US", num_gpus,
        known_gpu(gpu).name);
  return {known.bandwidth, seconds, known.is_measured && num_gpus == 2, known.source};
}

// Microseconds of the all-reduce after half a layer: as tagged words, or with rows divided among the owners,
// which cross the link twice (ranks/protocol.h).
double sum_microseconds(const PredictedLink& link, int num_gpus, int hidden, int num_rows) {
  constexpr double kWordBytes{8}, kTermBytes{4}, kNormBytes{2};
  const bool are_words = num_rows <= tagged_rows(num_gpus);
  const double passes = are_words ? 1 : 2 * ceiling(num_rows, kSumRows),
               number_bytes = are_words ? kWordBytes : (kTermBytes + kNormBytes) / num_gpus,
               sent = number_bytes * num_rows * hidden * (num_gpus - 1);
  return (passes * link.sum_seconds + sent / link.bandwidth) * kMicro;
}

// A share as a model of its own, with its rows of the unembedding. Its experts are described by its load
// instead.
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
  const Target target = target_of(caps, own);
  const int num_gpus = own.num_ranks();
  StepPrediction found{
      {describe(caps), chip.read_bandwidth, chip.is_read_measured, chip.source, caps.total_bytes}, {}};
  if (num_gpus == 1) {
    found.operations = predict(chip, target, config, formats, step);
    return found;
  }
  found.link = link_of(gpu, num_gpus, sharing.sum_seconds);
  const std::vector<Share> shares = shares_of(config, own.parts, "the model", {"--count", sharing.split});
  found.load = load_of(config, shares, sharing.split, step);
  double longest = 0;
  for (const Share& share : shares) {
    const Config model = model_of(config, share);
    std::vector<PredictedTime> operations =
        StepModel(chip, target, model, formats, step, found.load).operations();
    double time = 0;
    for (const PredictedTime& row : operations) time += row.total();
    if (time > longest) found.operations = std::move(operations);
    longest = std::max(longest, time);
  }
  const double sum =
      config.num_layers * sum_microseconds(found.link, num_gpus, config.hidden, step.num_rows());
  for (PredictedTime& row : found.operations) {
    if (row.operation == Operation::kProject || row.operation == Operation::kExpertsDown) {
      row.serial += sum;
      found.sums += sum;
    }
    // Norms are computed in the launches of the all-reduce, except the one before the first layer.
    if (row.operation == Operation::kRmsNorm && row.num_launches > 1) {
      for (double* part : {&row.memory, &row.issue, &row.products, &row.serial}) *part /= row.num_launches;
      row.num_launches = 1;
    }
  }
  return found;
}

}  // namespace nibble::cuda
