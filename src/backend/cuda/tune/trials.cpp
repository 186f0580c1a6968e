#include "backend/cuda/tune/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/cuda/chip/images.h"
#include "backend/cuda/chip/recorder.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/prepare.h"
#include "backend/cuda/ranks/cards.h"
#include "backend/cuda/step/step_graph.h"
#include "backend/cuda/tune/step_kernels.h"
#include "backend/cuda/verify/checks.h"
#include "core/errors/error.h"
#include "model/checkpoint/synthetic.h"
#include "model/shares/share.h"

namespace nibble::cuda {
namespace {

// Number of layers of the trial model. With four, a layer's weights leave L2 before they are read again: four
// layers of gpt-oss-20b have 1.7 GB, of which a step of two rows reads at least an eighth (4 of 32 experts),
// more than L2 can hold.
constexpr int kTrialLayers{4};
constexpr int kTrialWarmups{2};

Config with_few_layers(Config config) {
  config.num_layers = std::min(config.num_layers, kTrialLayers);
  config.layer_kinds.resize(config.num_layers);
  return config;
}

// Returns the numbers of rows in ascending order. Where a step runs as a graph, its number of rows is rounded
// up to the graph's.
std::vector<int> rows_of_steps(std::span<const int> num_rows) {
  std::set<int> rows;
  for (const int rows_of_step : num_rows)
    rows.insert(rows_of_step <= kMaxGraphTokens ? graph_rows(rows_of_step) : rows_of_step);
  return {rows.begin(), rows.end()};
}

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// A step and its input: decode with one token for each of several sequences, or prefill of one sequence.
class TrialStep {
 public:
  TrialStep(int num_rows, int vocab) {
    const bool is_prompt = num_rows > kMaxGraphTokens;
    for (int row = 0; row < num_rows; ++row) {
      tokens_.push_back(static_cast<TokenId>(int64_t{7919} * row % vocab));
    }
    for (int page = 0; page < 2 * num_rows; ++page) pages_.push_back(static_cast<PageId>(page));
    output_ = {.token_index = is_prompt ? num_rows - 1 : 0, .sample = &sample_, .prompt = {}, .output = {}};
    const size_t run_tokens = is_prompt ? tokens_.size() : 1;
    const size_t run_pages = (run_tokens + kPageTokens - 1) / kPageTokens;
    for (size_t first = 0; first < tokens_.size(); first += run_tokens) {
      runs_.push_back({.tokens = std::span(tokens_).subspan(first, run_tokens),
                       .full = {std::span(pages_).subspan(2 * first, run_pages)},
                       .sliding = {std::span(pages_).subspan(2 * first + run_pages, run_pages)},
                       .outputs = {&output_, 1}});
    }
  }
  TrialStep(const TrialStep&) = delete;

  Batch batch() const { return {runs_, false}; }

  static int num_pages(int most_rows) {  // returns the pages that steps of up to most_rows rows need
    return 2 * std::max(kMaxGraphTokens, (most_rows + kPageTokens - 1) / kPageTokens);
  }

 private:
  SampleParams sample_{};
  OutputRow output_{};
  std::vector<TokenId> tokens_;
  std::vector<PageId> pages_;
  std::vector<nibble::Run> runs_;
};

class TrialModel {
 public:
  TrialModel(const Config& config, const BackendOptions& options, const CudaOptions& own,
             std::span<const KernelRow> rows)
      : config_(config),
        has_graphs_(own.has_graphs),
        weights_(upload(describe_synthetic(config, "nibble tune"), whole_of(config), options.dense,
                        options.num_threads)),
        kv_(config, options, stream_),
        work_(config, options, own, stream_, rows),
        input_(config, options, work_->exchange, work_->step) {
    stream_.wait();
  }

  // Returns each operation's median time over the repetitions, in microseconds.
  std::map<Operation, double> time(const Plan& plan, int num_rows, int num_repetitions) {
    const TrialStep step(num_rows, config_.vocab);
    std::map<Operation, std::vector<double>> samples;
    std::optional<Recorder> recorder;
    std::optional<StepGraph> graph;  // captured only once, as in the backend
    for (int n = 0; n < kTrialWarmups + num_repetitions; ++n) {
      const StepShape shape = input_.upload(step.batch(), stream_);
      const auto launch_all = [&] { enqueue(plan, shape); };
      if (!graph) {
        recorder.emplace();
        stream_.record(&*recorder);
      }
      recorder->clear(stream_);
      if (has_graphs_ && shape.is_recorded()) {
        if (!graph) graph.emplace(stream_, launch_all);
        graph->launch(stream_);
      } else {
        launch_all();
      }
      input_.count_launch();
      stream_.record(nullptr);
      stream_.wait();
      if (n < kTrialWarmups) continue;
      for (const auto& [operation, microseconds] : times_of(recorder->read()))
        samples[operation].push_back(microseconds);
    }
    std::map<Operation, double> medians;
    for (const auto& [operation, of_operation] : samples) medians[operation] = median_of(of_operation);
    return medians;
  }

 private:
  void enqueue(const Plan& plan, const StepShape& shape) {
    const StepRecipe recipe = cuda::recipe(plan, config_, Sharing{}, rows_of(shape));
    const Step step{{config_, weights_, kv_, work_->logits}, plan, recipe, *work_, shape, stream_};
    embed(step);
    for (int half = 0; half < num_halves(step.model); ++half) run_half_layer(step, half, {});
    if (shape.num_tokens <= kOutputRows) unembed(step, 0, shape.num_outputs);
  }

  // Returns microseconds per operation and layer (unembed: per step). Time in which two launches overlap
  // counts for the earlier launch only.
  std::map<Operation, double> times_of(const std::vector<TimedWork>& step) const {
    std::map<Operation, double> sums;
    double end = step.front().begin;
    for (const TimedWork& work : step) {
      sums[work.operation] += std::max(0.0, work.end - std::max(work.begin, end)) /
                              (work.operation == Operation::kUnembed ? 1 : config_.num_layers);
      end = std::max(end, work.end);
    }
    return sums;
  }

  Config config_;
  bool has_graphs_;
  OwnedStream stream_;
  DeviceWeights weights_;
  KvStorage kv_;
  OwnedWorkspace work_;
  InputUpload input_;
};

// Checks kernels at any number of rows, including numbers for which the table does not use them. A kernel is
// checked only once per number.
class TrialChecks {
 public:
  explicit TrialChecks(const Target& target) : target_(target) {}

  const std::string& fault_of(const KernelRow& row, int num_rows) {  // returns "" if the kernel is right
    const auto [found, is_new] = faults_.try_emplace({row.operation, std::string_view(row.kernel), num_rows});
    if (!is_new) return found->second;
    KernelRow checked = row;
    checked.from_rows = checked.to_rows = num_rows;
    const KernelFinding finding = verify::check_row(checked, target_, {});
    if (finding.num_compared == 0)
      found->second = "its check has no case with this number of rows";
    else if (!finding.is_right())
      found->second = fmt::format("{:.3g} times the bound at {}", finding.worst, finding.at);
    return found->second;
  }

 private:
  Target target_;
  std::map<std::tuple<Operation, std::string_view, int>, std::string> faults_;
};

// Checks the candidates at several numbers of rows, and then times them.
class Trials {
 public:
  // `report` must outlive this object.
  Trials(std::vector<StepKernels> candidates, std::vector<int> num_rows, const ReportProgress& report)
      : candidates_(std::move(candidates)),
        num_rows_(std::move(num_rows)),
        meter_(2 * num_rows_.size(), report) {}  // each row count has two steps of progress: check and timing

  std::span<const StepKernels> candidates() const { return candidates_; }
  std::span<const StepTrial> times() const { return times_; }
  const std::vector<KernelTrial>& of_kernels() const { return of_kernels_; }

  void check(const Target& target) {
    TrialChecks checks(target);
    for (const int rows : num_rows_) {
      const size_t num_before = right_.size();
      for (size_t c = 0; c < candidates_.size(); ++c)
        if (rows <= candidates_[c].most_rows() && is_right(candidates_[c], rows, checks))
          right_.emplace_back(c, rows);
      // The check is one step of progress. The timing is a second one, skipped if no candidate is right.
      meter_.add(right_.size() == num_before ? 2 : 1);
    }
  }

  // Times the candidates that passed their checks. plan_of(candidate) returns the plan to run.
  template <typename PlanOf>
  void time(TrialModel& model, int num_repetitions, const PlanOf& plan_of) {
    for (size_t i = 0; i < right_.size(); ++i) {
      const auto [c, rows] = right_[i];
      times_.push_back({c, rows, model.time(plan_of(candidates_[c]), rows, num_repetitions)});
      for (const Operation operation : kTriedOperations) {
        const KernelRow* row = candidates_[c].find(operation);
        const auto& times = times_.back().microseconds;
        if (const auto time = times.find(operation); row && time != times.end())
          add_once({operation, row->kernel, rows, time->second});
      }
      if (i + 1 == right_.size() || right_[i + 1].second != rows) meter_.add(1);
    }
  }

 private:
  // Returns whether all kernels of a candidate are right, and records the faults of those that are not.
  bool is_right(const StepKernels& candidate, int rows, TrialChecks& checks) {
    bool is_right = true;
    for (const Operation operation : kTriedOperations) {
      const KernelRow* row = candidate.find(operation);
      if (!row || (operation == Operation::kUnembed && rows > kOutputRows)) continue;
      const std::string& fault = checks.fault_of(*row, rows);
      is_right &= fault.empty();
      if (!fault.empty()) add_once({operation, row->kernel, rows, 0, fault});
    }
    return is_right;
  }

  // Adds a kernel's trial at a number of rows, unless another candidate's trial has added it already.
  void add_once(KernelTrial trial) {
    if (added_.emplace(trial.operation, trial.kernel, trial.num_rows).second)
      of_kernels_.push_back(std::move(trial));
  }

  std::vector<StepKernels> candidates_;
  std::vector<int> num_rows_;
  Meter meter_;
  std::vector<std::pair<size_t, int>> right_;  // candidate and number of rows of each passed check
  std::vector<StepTrial> times_;
  std::vector<KernelTrial> of_kernels_;
  std::set<std::tuple<Operation, std::string, int>> added_;
};

CudaOptions on_one_gpu(CudaOptions own) {
  own.gpus = {devices_of(own).front()};
  own.parts = {1};
  own.prompt_activations.reset();
  own.tuned_steps.clear();
  return own;
}

BackendOptions with_rows(BackendOptions options, int most_rows) {
  options.max_batch_tokens = most_rows;
  options.num_pages = TrialStep::num_pages(most_rows);
  return options;
}

std::vector<KernelRow> all_rows_of(std::span<const StepKernels> candidates) {
  std::vector<KernelRow> rows;
  for (const StepKernels& candidate : candidates)
    rows.insert(rows.end(), candidate.rows.begin(), candidate.rows.end());
  return rows;
}

}  // namespace

KernelTrials try_kernels(const Config& whole, const BackendOptions& given, const CudaOptions& given_own,
                         const TrialPlan& trials) {
  if (const std::string missing = why_no_device(); !missing.empty())
    throw InputError("--backend cuda: {}", missing);
  const CudaOptions own = on_one_gpu(given_own);
  use_device(own.gpus.front());
  const DeviceCaps& caps = device_caps();
  check_images(caps.name, caps.compute_capability, images(), own.may_compile);
  check_shapes(whole, "nibble tune");
  const Config config = with_few_layers(whole);
  const std::vector<int> num_rows = rows_of_steps(trials.num_rows);
  const BackendOptions options = with_rows(given, num_rows.back());
  const Target target = target_of(caps, own);
  const Plan plan(config, options, target, "nibble tune");
  for (const std::string& reason :
       {why_not_budget(plan, config, caps),
        why_not_memory(config, "nibble tune", options, own, {free_device_bytes(caps)})})
    if (!reason.empty()) throw InputError("{}", reason);

  Trials tried(step_kernels(config, options, target), num_rows, trials.report);
  prepare_kernels();
  tried.check(target);
  const std::vector<KernelRow> rows = all_rows_of(tried.candidates());
  TrialModel model(config, options, own, rows);
  tried.time(model, trials.num_repetitions, [&](const StepKernels& candidate) {
    return Plan(config, options, target_of(candidate, target), "nibble tune", {.rows = candidate.rows});
  });
  const auto ranges = [&](const std::vector<StepChoice>& choices) {
    return ranges_of(tried.candidates(), choices, plan);
  };
  const std::vector<StepChoice> now = chosen_now(tried.candidates(), tried.times()),
                                best = fastest(tried.candidates(), tried.times(), whole.num_layers);
  return {tried.of_kernels(), ranges(now), ranges(best), tuned_steps(tried.candidates(), best, now)};
}

}  // namespace nibble::cuda
