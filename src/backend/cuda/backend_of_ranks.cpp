#include "backend/cuda/backend_of_ranks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/cuda/chip/profiler_range.h"
#include "backend/cuda/chip/recorder.h"
#include "backend/cuda/chip/stream_timer.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/forward.h"
#include "backend/cuda/pipeline/norm_input.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/prepare.h"
#include "backend/cuda/traced_values.h"
#include "core/errors/check.h"
#include "core/errors/error.h"

namespace nibble::cuda {

std::vector<KernelChoice> choices_of(const Plan& plan, int num_ranks, bool have_own_sequences,
                                     const Connection& connection) {
  std::vector<KernelChoice> rows = choices(plan);
  if (num_ranks == 1) return rows;
  for (const Operation operation : {Operation::kProject, Operation::kExpertsDown}) {
    const KernelChoice of = *std::ranges::find(rows, operation, &KernelChoice::operation);
    const std::vector<KernelChoice> sums = sum_choices(connection, of, num_ranks, have_own_sequences);
    rows.insert(rows.end(), sums.begin(), sums.end());
  }
  return rows;
}

std::vector<int> cards_of(const std::vector<RankPlan>& plans) {
  std::vector<int> cards;
  for (const RankPlan& plan : plans)
    if (std::ranges::find(cards, plan.device) == cards.end()) cards.push_back(plan.device);
  return cards;
}

namespace {

// A GPU with its rank. In tests a GPU may have several ranks, which run one after another.
struct Card {
  explicit Card(bool has_graphs) : graphs(has_graphs) {}

  OwnedStream stream;
  std::vector<std::unique_ptr<Rank>> ranks;
  StepGraphs graphs;
  OwnedEvent end[2];  // end[n % 2] marks the end of step n, for the last two launched steps

  // Returns the shape, on the first rank, of the step uploaded last. On other ranks, num_own_rows may differ.
  const StepShape& shape() const { return ranks.front()->shape(); }
  void upload(const Batch& batch) {
    for (const auto& rank : ranks) rank->take(batch, stream);
  }
  void count_launch() const {
    for (const auto& rank : ranks) rank->input().count_launch();
  }
  // Runs one exchange between ranks. `f(rank, turn)` launches a rank's part. If the GPU has several ranks,
  // their launches run one after another in one stream. So all of these ranks send before any of them waits;
  // otherwise a rank would wait for data that a later launch sends.
  template <typename F>
  void take_turns(const F& f) {
    if (ranks.size() == 1) return f(*ranks.front(), Turn::kSendAndWait);
    for (const Turn turn : {Turn::kSend, Turn::kWait})
      for (const auto& rank : ranks) f(*rank, turn);
  }
};

// The host's timeout for a step whose ranks are connected by NCCL. The host needs it because NCCL's kernels
// wait forever for a lost rank. The kernels of PeerSum time out on the GPU.
constexpr double kPatienceForRanksSeconds{20};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Weights& weights, const BackendOptions& options, const CudaOptions& own,
              std::vector<RankPlan> plans, Connection connection);

  std::string_view name() const override { return "cuda"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override;
  std::vector<Counter> counters() const override { return first_card().graphs.counters(); }
  std::vector<KernelLaunches> launches() const override { return first_card().stream.counts().by_kernel(); }
  StepResult step(const Batch& batch) override {
    launch(batch);
    return wait();
  }
  // Returns false if each rank has its own sequences: keep_drafts() would then have to move keys and values
  // that are in the memory of other ranks.
  bool takes_trees() const override { return !first_rank().share().has_own_sequences; }
  // Drafts form trees only if the user requests trees: with the miniature's draft head, trees gain few
  // tokens, and their kernels take longer than those of chains (docs/speculation.md).
  bool tries_trees() const override { return false; }
  int steps_ahead() const override { return 1; }
  void launch(const Batch& batch) override;
  StepResult wait() override;
  std::vector<TimedWork> profile(const Batch& batch) override;
  std::vector<TracedResult> trace(const Batch& batch) override;

 private:
  Card& first_card() const { return *cards_.front(); }
  Rank& first_rank() const { return *first_card().ranks.front(); }
  bool is_shared() const { return num_ranks_ > 1; }
  bool is_first(const Card& card) const { return &card == &first_card(); }
  // Returns whether this GPU samples tokens. Only rank 0's GPU does.
  bool draws(const Card& card) const { return is_first(card) && first_rank().share().rank == 0; }
  void connect(int max_batch_tokens);
  void try_links();
  // Waits for `event`. Throws BackendLost on a timeout or if a rank is lost. If ranks are processes, the
  // error of RankSum::check_alive() is thrown unchanged.
  void wait_for(const OwnedEvent& event);
  // Returns whether, since the last call, a rank has timed out while it waited for another rank.
  bool have_timed_out() { return is_shared() && first_rank().connection().take_timeout(); }
  void abort_sums();

  // The functions enqueue_...() enqueue work of the step uploaded last. If `traced` is not null,
  // enqueue_layers() appends to it the results of the first `num_traced` rows. `traced` must be null if ranks
  // share the model.
  void enqueue_layers(Card& card, std::vector<TracedResult>* traced = nullptr, int num_traced = 0);
  void enqueue_unembed(Card& card, int first, int count);
  // Enqueues sampling of output rows. If `logits` is true, also copies the logits to pinned_logits_.
  void enqueue_sample(Card& card, int first, int count, bool logits = false);
  // Enqueues logits and sampling of a step without a graph, in launches of limited size. If want_logits,
  // waits for each launch and appends its logits to `logits`.
  void enqueue_outputs(Card& card, bool want_logits, std::vector<float>& logits);
  // If some drafts form trees, moves the keys and values of accepted drafts to the cache slots of their
  // positions. Then the draft head, if loaded, makes new drafts. Call it after enqueuing the sampling of all
  // outputs of the step.
  void enqueue_drafts(Card& card) {
    if (card.shape().have_trees)
      for (const auto& rank : card.ranks) keep_drafts(rank->step(card.stream));
    if (drafter_ && is_first(card)) drafter_->draft(card.stream, card.shape(), first_rank().work());
  }
  // Returns whether the graph of a step ends before sampling. It does if sampling needs masks, because the
  // host uploads the masks only after it has launched the graph. It also does if ranks are processes: all
  // processes must capture the same NCCL work, but the work of sampling depends on how tokens are chosen,
  // which only the process of rank 0 knows.
  bool ends_before_sampling(const StepShape& shape) const {
    return shape.have_masks || connection_.has_processes();
  }
  StepGraphs::Key key_of_graph(const Card& card) const {
    StepGraphs::Key shapes;
    for (const auto& rank : card.ranks) {
      StepShape& shape = shapes.emplace_back(rank->shape());
      if (connection_.has_processes()) shape.are_greedy = shape.have_masks = false;
    }
    return shapes;
  }
  void enqueue_recorded(Card& card) {
    const StepShape& shape = card.shape();
    enqueue_layers(card);
    enqueue_unembed(card, 0, shape.num_outputs);
    if (ends_before_sampling(shape)) return;
    enqueue_sample(card, 0, shape.num_outputs);
    enqueue_drafts(card);
  }
  struct Launched {
    uint32_t step{0};
    int num_outputs{0};
    std::vector<float> logits;
    std::vector<TreeOfStep> trees;
    size_t num_runs{0};
    DraftDownload drafts;
  };
  void launch_on(Card& card, bool want_logits, Launched& step);
  void copy_logits(int count);
  void take_logits(int count, std::vector<float>& logits);

  Config config_;
  int num_ranks_;
  double step_patience_seconds_;
  Connection connection_;
  CardThreads threads_;
  std::vector<std::unique_ptr<Card>> cards_;
  PinnedBuffer pinned_logits_;
  std::array<Launched, 2> launched_;  // host data of the last two launched steps; step n has launched_[n % 2]
  size_t num_launched_{0}, num_waited_for_{0};
  std::optional<HeadDrafter> drafter_;  // runs the draft head; set only if one rank has the whole model
};

std::vector<KernelChoice> CudaBackend::kernels() const {
  return choices_of(first_rank().plan(), num_ranks_, first_rank().share().has_own_sequences, connection_);
}

CudaBackend::CudaBackend(const Weights& weights, const BackendOptions& options, const CudaOptions& own,
                         std::vector<RankPlan> plans, Connection connection)
    : config_(weights.config),
      num_ranks_(own.num_ranks()),
      step_patience_seconds_(options.step_patience_seconds),
      connection_(std::move(connection)),
      threads_(cards_of(plans)),
      cards_(cards_of(plans).size()),
      pinned_logits_(size_t{1} * kDownloadedRows * config_.vocab * sizeof(float)) {
  const std::vector<int> devices = cards_of(plans);
  open_memory(connection_, devices);
  threads_.run([&](size_t n) {
    cards_[n] = std::make_unique<Card>(own.has_graphs && connection_.may_record());
    Card& card = *cards_[n];
    for (RankPlan& plan : plans)
      if (plan.device == devices[n])
        card.ranks.push_back(std::make_unique<Rank>(weights, std::move(plan), options, own, card.stream));
    if (n == 0 && options.draft_head)
      drafter_.emplace(weights, first_rank().weights(), options, first_rank().plan().target(), card.stream);
    prepare_kernels();
    card.stream.wait();
  });
  if (!is_shared()) return;
  connect(options.max_batch_tokens);
  try_links();
}

void CudaBackend::connect(int max_batch_tokens) {
  std::vector<LocalRank> local;
  std::vector<Rank*> ranks;
  for (size_t n = 0; n < cards_.size(); ++n)
    for (const auto& rank : cards_[n]->ranks) {
      local.push_back({rank->share().rank, n, &rank->work(), cards_[n]->stream});
      ranks.push_back(rank.get());
    }
  auto sums = connect_ranks(connection_, config_, max_batch_tokens, threads_, local);
  for (size_t n = 0; n < ranks.size(); ++n) ranks[n]->connect(std::move(sums[n]));
}

// Tests sums over ranks. Some drivers report peer access but drop a GPU's writes to other GPUs.
void CudaBackend::try_links() {
  threads_.run([&](size_t n) {
    for (const auto& rank : cards_[n]->ranks) rank->begin_trial(cards_[n]->stream);
  });
  std::atomic<bool> are_right{true};
  threads_.run([&](size_t n) {
    Card& card = *cards_[n];
    card.take_turns([&](Rank& rank, Turn turn) { rank.run_trial(turn, card.stream); });
    check(cudaEventRecord(card.end[0], card.stream), "testing the links");
  });
  for (const auto& card : cards_) wait_for(card->end[0]);
  threads_.run([&](size_t n) {
    for (const auto& rank : cards_[n]->ranks)
      if (!rank->trial_was_right(cards_[n]->stream)) are_right = false;
  });
  if (have_timed_out() || !are_right) throw InputError("{}", why_wrong(connection_, num_ranks_));
}

// Returns taps that append results of the step's first `num_rows` rows to `traced`.
Taps tracing(const Step& step, std::vector<TracedResult>& traced, int num_rows) {
  const auto add_stream = [&traced, step, num_rows](Operation operation) {
    return [&traced, step, num_rows, operation](size_t layer, const ResidualInput& x) {
      traced.push_back({static_cast<int>(layer), operation, residual_values(step, x, num_rows)});
    };
  };
  return {
      .after_attend =
          [&traced, step, num_rows](size_t layer) {
            traced.push_back({static_cast<int>(layer), Operation::kAttend, attended_values(step, num_rows)});
          },
      .after_project = add_stream(Operation::kProject),
      .after_layer = add_stream(Operation::kExpertsUp)};
}

void CudaBackend::enqueue_layers(Card& card, std::vector<TracedResult>* traced, int num_traced) {
  Taps taps;
  if (drafter_)
    taps.after_layer = [&](size_t layer, const ResidualInput& x) {
      drafter_->keep(card.stream, layer, card.shape().num_tokens, x);
    };
  const Step first = card.ranks.front()->step(card.stream);
  if (traced) taps = tracing(first, *traced, num_traced);
  const MadeDrafts last_drafts = drafter_ ? drafter_->made() : MadeDrafts{};
  for (const auto& rank : card.ranks) embed(rank->step(card.stream), last_drafts);
  if (traced) {
    const ResidualInput embedded{.x = first.work.x, .hidden = config_.hidden};
    traced->push_back({-1, Operation::kEmbed, residual_values(first, embedded, num_traced)});
  }
  for (int half = 0; half < num_halves(first.model); ++half) {
    for (const auto& rank : card.ranks) run_half_layer(rank->step(card.stream), half, taps);
    if (!is_shared()) continue;
    for (int n = 0; n < card.ranks.front()->num_sums(); ++n)
      card.take_turns([&](Rank& rank, Turn turn) { rank.sum(half, n, turn, card.stream); });
  }
}

void CudaBackend::enqueue_unembed(Card& card, int first, int count) {
  for (const auto& rank : card.ranks) unembed(rank->step(card.stream), first, count);
  if (is_shared())
    card.take_turns([&](Rank& rank, Turn turn) {
      rank.connection().gather_logits(rank.on(card.stream), {first, count}, turn);
    });
}

// With peer access, all ranks store their logits in rank 0's memory. After the barrier in send_tokens(),
// ranks may overwrite these logits with those of the next launch. So all reads of the logits are enqueued
// before send_tokens().
void CudaBackend::enqueue_sample(Card& card, int first, int count, bool logits) {
  if (draws(card)) {
    sample(first_rank().step(card.stream), first, count);
    if (logits) copy_logits(count);
  }
  if (is_shared())
    card.take_turns([&](Rank& rank, Turn turn) {
      rank.connection().send_tokens(rank.on(card.stream), {first, count}, turn);
    });
}

void CudaBackend::enqueue_outputs(Card& card, bool want_logits, std::vector<float>& logits) {
  const int num_outputs = card.shape().num_outputs;
  const bool takes_logits = want_logits && draws(card);
  // All ranks must launch the same numbers of rows. If ranks are processes, only rank 0's process knows
  // `want_logits`, so every launch has at most kDownloadedRows rows, whether logits are wanted or not.
  const int most_rows = want_logits || connection_.has_processes() ? kDownloadedRows : kOutputRows;
  for (int first = 0; first < num_outputs; first += most_rows) {
    const int count = std::min(most_rows, num_outputs - first);
    enqueue_unembed(card, first, count);
    enqueue_sample(card, first, count, takes_logits);
    if (takes_logits) take_logits(count, logits);
  }
}

void CudaBackend::copy_logits(int count) {
  const size_t num_logits = size_t{1} * count * config_.vocab;
  check(cudaMemcpyAsync(pinned_logits_.as<void>(), first_rank().work().logits, num_logits * sizeof(float),
                        cudaMemcpyDeviceToHost, first_card().stream),
        "copying logits");
}

void CudaBackend::take_logits(int count, std::vector<float>& logits) {
  first_card().stream.wait();
  const auto* downloaded = pinned_logits_.as<float>();
  logits.insert(logits.end(), downloaded, downloaded + size_t{1} * count * config_.vocab);
}

// Returns, for example, "step of 12 rows in 3 runs".
std::string text_of(const Batch& batch) {
  size_t num_rows = 0;
  for (const Run& run : batch.runs) num_rows += run.tokens.size();
  return fmt::format("step of {} rows in {} runs", num_rows, batch.runs.size());
}

// Every GPU uploads its input and captures its graph before any GPU launches the step. Uploads and captures
// may allocate memory, and an allocation may wait for running kernels. If another GPU had launched already,
// its kernels could wait for a launch that comes only after the allocation: a deadlock.
void CudaBackend::launch(const Batch& batch) {
  NIBBLE_CHECK(num_launched_ - num_waited_for_ < launched_.size(), "launch() without wait()");
  std::optional<ProfilerRange> range;
  if (has_profiler()) range.emplace(text_of(batch));
  Launched& step = launched_[num_launched_ % launched_.size()];
  step.logits.clear();
  // Counts the outputs of the runs. StepShape::num_outputs also includes outputs of padding rows.
  step.num_outputs = 0;
  for (const Run& run : batch.runs)
    if (draws(first_card())) step.num_outputs += static_cast<int>(run.outputs.size());
  threads_.run([&](size_t n) {
    Card& card = *cards_[n];
    card.upload(batch);
    if (card.shape().is_recorded())
      card.graphs.prepare(key_of_graph(card), card.stream, [&] { enqueue_recorded(card); });
  });
  threads_.run([&](size_t n) { launch_on(*cards_[n], batch.want_logits, step); });
  step.step = first_rank().input().step();
  step.trees = first_rank().input().trees();
  step.num_runs = batch.runs.size();
  if (drafter_) drafter_->download(first_card().stream, batch, first_card().shape(), step.drafts);
  for (const auto& card : cards_)
    check(cudaEventRecord(card->end[num_launched_ % launched_.size()], card->stream), "launching a step");
  ++num_launched_;
}

// Launches the step uploaded last. If logits are requested (by tests and tools), also waits for the step.
void CudaBackend::launch_on(Card& card, bool want_logits, Launched& step) {
  const StepShape& shape = card.shape();
  const bool takes_logits = want_logits && draws(card);
  if (shape.is_recorded()) {
    card.graphs.launch(key_of_graph(card), card.stream, [&] { enqueue_recorded(card); });
    if (ends_before_sampling(shape)) {
      if (draws(card)) first_rank().input().upload_masks(card.stream);
      enqueue_sample(card, 0, shape.num_outputs);
      enqueue_drafts(card);
    }
    if (takes_logits) {
      copy_logits(step.num_outputs);
      take_logits(step.num_outputs, step.logits);
    }
  } else if (shape.num_tokens > 0) {
    card.graphs.count_step_without();
    enqueue_layers(card);
    if (draws(card)) first_rank().input().upload_masks(card.stream);
    enqueue_outputs(card, want_logits, step.logits);
    enqueue_drafts(card);
  }
  if (shape.num_tokens > 0) card.count_launch();
}

StepResult CudaBackend::wait() {
  NIBBLE_CHECK(num_waited_for_ < num_launched_, "no step was launched");
  const size_t turn = num_waited_for_++ % launched_.size();
  Launched& step = launched_[turn];
  for (const auto& card : cards_) wait_for(card->end[turn]);
  if (have_timed_out())
    throw InputError("a GPU waited too long for another one: the step was aborted, and its tokens are lost");
  StepResult result{.outputs = {}, .logits = std::move(step.logits)};
  if (drafter_) result.drafts = drafter_->read(step.drafts);
  const int32_t* const kept = first_rank().work().exchange.kept[step.step % 2];
  for (const TreeOfStep& tree : step.trees) {
    result.kept.resize(step.num_runs);
    for (int row = tree.last_known; (row = kept[tree.first_row + row]) >= 0;)
      result.kept[tree.run].push_back(row);
  }
  if (step.num_outputs == 0) return result;
  const StepOutput& output = *first_rank().work().exchange.outputs[step.step % 2];
  NIBBLE_CHECK(output.step == step.step, "step {} ran as number {}", step.step, output.step);
  const auto* rows = reinterpret_cast<const RowOutput*>(&output + 1);
  DeviceTimes times{output.begin_ns, output.met_ns};
  for (int i = 0; i < step.num_outputs; ++i) {
    result.outputs.push_back(to_sampled(rows[i].result));
    times.end_ns = std::max<uint64_t>(times.end_ns, rows[i].end_ns);
  }
  if (!drafter_) result.device_times = times;
  return result;
}

void CudaBackend::wait_for(const OwnedEvent& event) {
  const auto query = [&] { return cudaEventQuery(event); };
  if (!connection_.can_hang()) return wait_until_ready(query, "running a step", step_patience_seconds_);
  try {
    wait_until_ready(query, "running a step of several GPUs", kPatienceForRanksSeconds, [&] {
      for (const auto& card : cards_)
        for (const auto& rank : card->ranks) rank->connection().check_alive();
    });
  } catch (const std::exception& error) {
    if (connection_.has_processes()) throw;
    abort_sums();
    throw BackendLost(error.what());
  }
}

// Aborts the sums over ranks after a failure; the backend cannot be used afterwards. Must not be called if
// ranks are processes. In that case CUDA graphs may contain NCCL's work, and NCCL's abort would not return
// until these graphs are destroyed.
void CudaBackend::abort_sums() {
  threads_.run([&](size_t n) {
    for (const auto& rank : cards_[n]->ranks) rank->connection().abort();
  });
}

// Runs the step on all GPUs, and returns the times of the launches on the first GPU.
std::vector<TimedWork> CudaBackend::profile(const Batch& batch) {
  threads_.use_first();  // the recorder's memory must be on the first GPU
  Recorder recorder;
  std::vector<std::unique_ptr<StepGraph>> graphs(cards_.size());
  const auto uses_graph = [](const Card& card) { return card.shape().is_recorded() && card.graphs.are_on(); };
  recorder.clear(first_card().stream);
  threads_.run([&](size_t n) {
    Card& card = *cards_[n];
    card.upload(batch);
    NIBBLE_CHECK(!card.shape().have_masks, "a step with masks is not profiled");
    if (is_first(card)) card.stream.record(&recorder);
    if (uses_graph(card))
      graphs[n] = std::make_unique<StepGraph>(card.stream, [&] { enqueue_recorded(card); });
  });
  threads_.run([&](size_t n) {
    Card& card = *cards_[n];
    const StepShape& shape = card.shape();
    if (graphs[n]) {
      graphs[n]->launch(card.stream);
    } else if (shape.num_tokens > 0) {
      enqueue_layers(card);
      std::vector<float> no_logits;
      enqueue_outputs(card, /*want_logits=*/false, no_logits);
      enqueue_drafts(card);
    }
    if (shape.num_tokens > 0) card.count_launch();
    card.stream.record(nullptr);
    card.stream.wait();
  });
  return recorder.read();
}

// Returns the results of embed, attend, project, the experts and unembed. Results of qkv and of the router
// are not returned: errors in them show in the results of attend and of the experts.
std::vector<TracedResult> CudaBackend::trace(const Batch& batch) {
  NIBBLE_CHECK(batch.runs.size() == 1 && num_launched_ == num_waited_for_,
               "one run is traced, in a step alone");
  if (is_shared()) return {};
  std::vector<TracedResult> traced;
  threads_.run([&](size_t) {
    Card& card = first_card();
    card.upload(batch);
    NIBBLE_CHECK(!card.shape().have_masks, "a step with masks is not traced");
    enqueue_layers(card, &traced, static_cast<int>(batch.runs.front().tokens.size()));
    std::vector<float> logits;
    enqueue_outputs(card, /*want_logits=*/true, logits);
    card.count_launch();
    card.stream.wait();
    traced.push_back({-1, Operation::kUnembed, std::move(logits)});
  });
  return traced;
}

}  // namespace

std::unique_ptr<Backend> backend_of_ranks(const Weights& weights, const BackendOptions& options,
                                          const CudaOptions& own, std::vector<RankPlan> plans,
                                          Connection connection) {
  return std::make_unique<CudaBackend>(weights, options, own, std::move(plans), std::move(connection));
}

}  // namespace nibble::cuda
