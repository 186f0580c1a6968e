// The engine's loop: take new requests, plan a step, run it, send out its events. Two queues connect it to
// other threads: requests and cancellations in, events out. All else belongs to the engine's thread. If the
// backend allows it (Backend::steps_ahead), the next step is planned and launched before the tokens of the
// current step are known; stop rules, text and events are processed while it runs. Drafts and constraints
// depend on known tokens: with either, a step starts only after the previous one has ended. The exception is
// drafts that the backend makes itself, which need not be known at launch (Drafting::launches_before_drafts).
// If no running answer continues, the next step only prefills and first waits for more prompts (gathering.h).
#include "engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/random.h"
#include "core/thread_name.h"
#include "core/with_memory.h"
#include "engine/drafting.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_batch.h"
#include "engine/step_pace.h"
#include "engine/validate.h"

namespace nibble {
namespace {

// Number of consecutive steps with the same fault after which the engine gives up.
constexpr int kMostSameFaults{3};

std::string cause(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) ? "out of memory" : error.what();
}

int num_rows_of(const Launched& step) {
  int num_rows = 0;
  for (const Slice& slice : step.slices) num_rows += slice.num_tokens;
  return num_rows;
}

// Returns the number of rows that continue answers, drafts included. The other rows belong to prompts.
int num_decode_rows_of(const Launched& step) {
  int num_rows = 0;
  for (const Slice& slice : step.slices)
    if (slice.num_tokens - slice.num_drafts == 1) num_rows += slice.num_tokens;
  return num_rows;
}

RequestLimits limits_of(const Config& config, const EngineOptions& options) {
  if (options.max_batch_tokens < 1)
    throw InputError("max_batch_tokens is {}: a step needs at least 1 row", options.max_batch_tokens);
  if (options.max_sequences < 1)
    throw InputError("max_sequences is {}: it must be 1 or more", options.max_sequences);
  if (options.max_context < 0 || options.max_context > config.max_context)
    throw InputError("the context is {} tokens: it must be 1 to {} (the model's limit), or 0 for that limit",
                     options.max_context, config.max_context);
  if (options.num_kv_caches < 1)
    throw InputError("num_kv_caches is {}: it must be 1 or more", options.num_kv_caches);
  if (options.num_pages < 2)
    throw InputError(
        "the KV cache has {} pages: it needs one for full and one for sliding-window layers, or more",
        options.num_pages);
  return {.vocab = config.vocab,
          .max_context = options.max_context > 0 ? options.max_context : config.max_context,
          .scheduler = {.max_batch_tokens = options.max_batch_tokens,
                        .max_shared_rows = options.max_shared_rows,
                        .max_sequences = options.max_sequences,
                        .num_kv_caches = options.num_kv_caches,
                        .num_pages = options.num_pages,
                        .window = config.window,
                        .prefix_cache = options.prefix_cache}};
}

SchedulerOptions scheduler_options(const RequestLimits& limits, bool launches_before_drafts) {
  SchedulerOptions options = limits.scheduler;
  options.launches_before_drafts = launches_before_drafts;
  return options;
}

}  // namespace

struct Engine::Impl {
  struct Order {
    RequestId id{};
    std::optional<GenerationRequest> request{};  // empty: cancel the request with this id
    Stopwatch submitted{};
  };

  Impl(Backend& model, const Tokenizer& vocabulary, const EngineOptions& options)
      : backend(model),
        tokenizer(vocabulary),
        limits(limits_of(model.config(), options)),
        drafting(options, model),
        scheduler(scheduler_options(limits, drafting.launches_before_drafts())),
        on_step(options.on_step),
        gathering(options.gathering, limits.scheduler.max_sequences) {
    if (options.itl_target > 0)
      pace.emplace(options.itl_target, options.max_batch_tokens);
    else if (options.max_rows_with_answers > 0)
      scheduler.limit_prompt_rows(options.max_rows_with_answers);
    publish();
    thread = std::thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      is_closing = true;
    }
    order_came.notify_one();
    thread.join();
  }

  void run();
  bool advance();  // returns false when the engine must end
  void discard_steps();
  void recover(const std::string& why);
  bool take_orders();  // waits while there is no work; returns false when the engine must end
  void take(Order& order);
  // Waits briefly, if no step runs, for prompts to share the next step. Returns false if the engine must end.
  bool gather();
  // Whether the next step must wait for the tokens of the step under way: drafts may follow these tokens, or
  // they decide how a sequence is sampled (constraints). Without waiting, such a sequence could run only in
  // every second step. With waiting, the device idles during the host's work between the steps.
  bool waits_for_tokens() const {
    return backend.steps_ahead() > 0 &&
           (scheduler.waits_for_tokens() || drafting.waits_for_tokens(*under_way));
  }
  std::optional<Launched> launch();  // returns nullopt if no sequence can run, or the launch failed
  std::vector<Slice> plan(Drafting::Trees& trees);
  // Collects the result of the step under way and hands out its tokens. If no step is `ahead`, the draft
  // model then makes drafts for the next step.
  void finish();
  std::optional<StepResult> collect(Launched& step);  // returns nullopt if the step failed
  StepReport measure(const Launched& step, const StepResult& result);
  int hand_out(Launched& step, StepResult& result);  // returns the number of tokens added
  // Queue PromptEvents. report_places(): of waiting requests. report_prompts(): of the prompts in a step,
  // after the step if `is_done`, otherwise before it.
  void report_places();
  void report_prompts(const std::vector<Slice>& slices, bool is_done);
  void fail_step(const std::exception& error);
  // Declares the engine lost if the backend is lost or the same fault repeats.
  void count_fault(const std::string& why, bool is_lost);
  void lose(std::string why);
  // Publishes the state for other threads, together with the events put since the last call: a thread that
  // receives such an event sees this state.
  void publish();
  int add_tokens(Sequence& sequence, const Slice& slice, const DraftTree& chain,
                 std::span<SampledToken> tokens, const Drafts& made);
  void add_token(Sequence& sequence, SampledToken token, bool is_first);
  void end(RequestId id, Event event);
  void fail(RequestId id, const std::string& message);
  template <typename AnyEvent>
  void put(AnyEvent event) {                                      // queues the event for publish()
    with_memory([&] { unsent.emplace_back(std::move(event)); });  // if this throws, `event` is unchanged
  }

  Backend& backend;
  const Tokenizer& tokenizer;
  const RequestLimits limits;

  mutable std::mutex mutex;  // guards the members from here to `state`
  std::condition_variable order_came, event_came;
  std::vector<Order> orders;
  std::vector<Event> events;
  size_t num_taken{0};  // number of `events` that wait_event() has returned
  bool is_closing{false};
  uint64_t num_requests{0};
  EngineState state;
  Progress progress;  // thread-safe without the mutex

  // The members below are used by the engine's thread only.
  Drafting drafting;
  Scheduler scheduler;
  Sequences sequences;
  std::vector<Event> unsent;  // events put since the last publish()
  uint64_t num_faults{0};
  std::string last_fault;  // message of the last failed step
  int num_same_faults{0};  // consecutive failures with that message
  std::string lost;        // EngineState::lost
  // Number of requests with reports_prompt that have not ended. If it is 0, no time is spent on reports.
  int num_reporting{0};
  std::function<void(const StepReport&)> on_step;
  Gathering gathering;
  std::optional<StepPace> pace;              // set if itl_target is set
  std::optional<Launched> under_way, ahead;  // ahead: launched while the step under way runs
  int num_launched{0};                       // steps launched and not collected yet
  std::optional<Stopwatch> since_step;       // started when the last step ended
  // Device clock at the end of the last step. Set if the device reports times, no sequence of that step was
  // still in its prompt (Launched::has_prompt), and the engine has not been idle since.
  std::optional<uint64_t> decode_ended_ns;

  std::thread thread;  // last: it starts after all other members are constructed
};

void Engine::Impl::run() {
  name_thread("engine");
  for (bool is_open = true; is_open;) {
    try {
      is_open = advance();
    } catch (const std::exception& error) {
      with_memory([&] { recover(cause(error)); });
    }
  }
  discard_steps();
}

bool Engine::Impl::advance() {
  if (!take_orders() || !gather()) return false;
  if (!lost.empty()) under_way.reset();
  if (under_way && (!scheduler.goes_on() || waits_for_tokens())) {
    finish();
    under_way.reset();
    if (!scheduler.goes_on()) return true;
  }
  ahead = launch();
  if (under_way) finish();
  under_way = std::exchange(ahead, std::nullopt);
  if (!under_way || backend.steps_ahead() > 0) return true;
  finish();
  under_way.reset();
  return true;
}

// Drops the steps under way. Does not wait for a lost backend, which may never answer.
void Engine::Impl::discard_steps() {
  for (; num_launched > 0; --num_launched) {
    if (!lost.empty()) continue;
    try {
      backend.wait();
    } catch (const std::exception&) {
    }
  }
  under_way.reset();
  ahead.reset();
  progress.end_all_steps();
}

// Called after a failure outside the backend, such as lack of memory, when it is unknown how far a step got.
// Requeues all running sequences with the tokens that they have, so answers do not change. Fails the youngest
// request: the next step then needs less memory, and no sequence can make every step fail.
void Engine::Impl::recover(const std::string& why) {
  discard_steps();
  decode_ended_ns.reset();
  const std::string message = fmt::format("the request was stopped after an internal failure: {}", why);
  const std::optional<RequestId> youngest = scheduler.youngest();
  scheduler.requeue_running();
  ++num_faults;
  for (auto& [id, sequence] : sequences) sequence.take_prompt_rows_again();
  if (youngest) fail(*youngest, message);
  count_fault(why, false);
  publish();
}

bool Engine::Impl::take_orders() {
  std::vector<Order> taken;
  if (scheduler.is_idle() && !under_way) {
    decode_ended_ns.reset();
    gathering.end();
  }
  {
    std::unique_lock lock(mutex);
    if (orders.empty() && scheduler.is_idle() && !under_way) progress.end_work();
    order_came.wait(lock, [&] { return is_closing || !orders.empty() || !scheduler.is_idle() || under_way; });
    if (is_closing) return false;
    taken.swap(orders);
  }
  for (Order& order : taken) {
    try {
      take(order);
    } catch (const std::exception& error) {
      fail(order.id,
           with_memory([&] { return fmt::format("the request could not be queued: {}", cause(error)); }));
    }
  }
  if (!taken.empty()) publish();
  return true;
}

void Engine::Impl::take(Order& order) {
  if (!order.request) {
    if (const auto found = sequences.find(order.id); found != sequences.end())
      end(order.id, with_memory([&] { return found->second.finish(FinishReason::kCancelled); }));
    return;
  }
  if (!lost.empty()) return fail(order.id, lost);
  const int max_output = max_output_tokens(*order.request, limits);
  Sequence& sequence =
      sequences
          .try_emplace(order.id, order.id, std::move(*order.request), max_output, tokenizer, order.submitted)
          .first->second;
  if (sequence.wants_reports()) ++num_reporting;
  scheduler.add(order.id, sequence.prompt(), max_output, sequence.needs(drafting.launches_before_drafts()));
  gathering.count(order.submitted);
}

bool Engine::Impl::gather() {
  if (under_way || scheduler.is_idle() || scheduler.goes_on()) return true;
  gathering.begin(scheduler.num_waiting());
  while (!scheduler.is_idle()) {  // the scheduler becomes idle if all its requests are cancelled
    const auto left = gathering.left(scheduler.num_waiting());
    if (!left) break;
    {
      std::unique_lock lock(mutex);
      order_came.wait_for(lock, *left, [&] { return is_closing || !orders.empty(); });
    }
    if (!take_orders()) return false;
  }
  return true;
}

std::vector<Slice> Engine::Impl::plan(Drafting::Trees& trees) {
  if (pace) scheduler.limit_prompt_rows(pace->max_prompt_rows());
  if (!drafting.is_on()) return scheduler.next();
  return scheduler.next([&](const DraftRoom& room) {
    trees = drafting.plan(room, sequences, under_way ? &*under_way : nullptr);
  });
}

std::optional<Launched> Engine::Impl::launch() {
  const Stopwatch planning;
  Drafting::Trees trees;
  Launched next{.slices = plan(trees)};
  report_places();
  publish();
  if (next.slices.empty()) return {};  // every sequence was cancelled or waits for its last token
  next.has_prompts_alone = true;
  for (size_t i = 0; i < next.slices.size(); ++i) {
    const Slice& slice = next.slices[i];
    Sequence& sequence = *slice.sequence;
    next.has_prompt |= sequence.output().empty() || !slice.gives_token;
    next.has_prompts_alone &= slice.first_position < std::ssize(sequence.prompt());
    if (slice.num_drafts == 0) continue;
    next.trees.resize(next.slices.size());
    DraftTree& tree = next.trees[i] = std::move(trees.at(slice.request));
    tree.cut(slice.num_drafts);
  }
  next.num_to_draft = drafting.num_to_draft();
  if (!under_way) next.planning_seconds = planning.seconds();
  next.clock = {};
  next.num_rows = num_rows_of(next);
  progress.begin_step(next.num_rows);
  try {
    const StepBatch batch(next, under_way ? &*under_way : nullptr, drafting.head());
    for (const Slice& slice : next.slices) slice.sequence->start(slice.first_position);
    report_prompts(next.slices, /*is_done=*/false);
    backend.launch(batch.batch());
    ++num_launched;
  } catch (const std::bad_alloc&) {
    throw;  // run() calls recover(): the retry may find memory
  } catch (const std::exception& error) {
    progress.end_step(next.num_rows);
    fail_step(error);
    return {};
  }
  return next;
}

void Engine::Impl::finish() {
  Launched& step = *under_way;
  std::optional<StepResult> result = collect(step);
  if (!result) return;
  StepReport report = measure(step, *result);
  const Stopwatch& handing_out = since_step.emplace();
  const int num_tokens = hand_out(step, *result);
  report_prompts(step.slices, /*is_done=*/true);
  publish();
  const speculative::DraftModel::CatchUp catch_up =
      ahead ? speculative::DraftModel::CatchUp{} : drafting.draft(step);
  if (!ahead) report.other_seconds += handing_out.seconds();
  drafting.learn({step, report, num_tokens, ahead ? &*ahead : nullptr, catch_up});
  if (on_step) on_step(report);
}

std::optional<StepResult> Engine::Impl::collect(Launched& step) {
  try {
    --num_launched;
    StepResult result = backend.wait();
    progress.end_step(step.num_rows);
    return result;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    progress.end_step(step.num_rows);
    since_step.emplace();
    decode_ended_ns.reset();
    if (step.slices.empty()) return {};
    fail_step(error);
    // fail_step() also failed the sequences of `ahead`. Without slices, the result of `ahead` is ignored.
    if (ahead) *ahead = {.num_rows = ahead->num_rows};
    return {};
  }
}

StepReport Engine::Impl::measure(const Launched& step, const StepResult& result) {
  StepReport report{.num_tokens = num_rows_of(step),
                    .num_sequences = static_cast<int>(step.slices.size()),
                    .backend_seconds = step.clock.seconds(),
                    .other_seconds = step.planning_seconds};
  if (since_step) report.backend_seconds = std::min(report.backend_seconds, since_step->seconds());
  progress.learn(report.num_tokens, report.backend_seconds);
  if (step.has_prompts_alone) gathering.learn(report.backend_seconds);
  const int num_decode_rows = num_decode_rows_of(step);
  if (pace) pace->learn(num_decode_rows, report.num_tokens - num_decode_rows, report.backend_seconds);
  const bool is_timed = result.device_times && !step.has_prompt;
  if (is_timed && decode_ended_ns)
    report.device_idle_seconds = 1e-9 * static_cast<double>(result.device_times->begin_ns - *decode_ended_ns);
  decode_ended_ns = is_timed ? std::optional(result.device_times->end_ns) : std::nullopt;
  return report;
}

int Engine::Impl::hand_out(Launched& step, StepResult& result) {
  if (!step.slices.empty()) num_same_faults = 0;
  NIBBLE_CHECK(step.slices.empty() || std::ssize(result.outputs) == step.num_outputs, "{} tokens for {} rows",
               result.outputs.size(), step.num_outputs);
  with_memory([&] { unsent.reserve(result.outputs.size()); });
  const Drafts none;
  int num_tokens = 0;
  auto output = result.outputs.begin();
  for (size_t i = 0; i < step.slices.size(); ++i) {
    const Slice& slice = step.slices[i];
    const auto end_of_prompt = output + step.num_prompt_rows[i];
    const auto prompt_rows = std::exchange(output, end_of_prompt);
    const auto num_rows = slice.gives_token ? static_cast<ptrdiff_t>(1 + step.tree(i).rows.size()) : 0;
    const Drafts& made = result.drafts.empty() ? none : result.drafts[i];
    std::span<SampledToken> tokens{std::exchange(output, output + num_rows), output};
    if (!slice.sequence) continue;  // the sequence ended after this step was launched
    try {
      for (auto row = prompt_rows; row != end_of_prompt; ++row) slice.sequence->push_prompt(std::move(*row));
      if (!slice.gives_token) continue;
      std::vector<SampledToken> tokens_of_path;
      if (!step.tree(i).is_chain()) {
        for (int& row : result.kept.at(i)) row -= slice.num_tokens - slice.num_drafts;
        tokens = tokens_of_path = step.trees[i].keep(result.kept[i], tokens);
      }
      num_tokens += add_tokens(*slice.sequence, slice, step.tree(i), tokens, made);
    } catch (const std::exception& error) {
      const std::string why =
          with_memory([&] { return fmt::format("the answer could not be continued: {}", cause(error)); });
      if (slice.sequence) fail(slice.request, why);
    }
    if (ahead && !made.tokens.empty()) Drafting::fill_in(slice.request, made, *ahead);
  }
  return num_tokens;
}

void Engine::Impl::report_places() {
  if (num_reporting == 0) return;
  scheduler.for_each_waiting([&](RequestId id, int place) {
    if (const auto event = sequences.at(id).report_place(place)) put(*event);
  });
}

void Engine::Impl::report_prompts(const std::vector<Slice>& slices, bool is_done) {
  if (num_reporting == 0) return;
  for (const Slice& slice : slices) {
    if (!slice.sequence) continue;  // the sequence ended after this step was launched
    const int num_done = slice.first_position + (is_done ? slice.num_tokens : 0);
    if (const auto event = slice.sequence->report_prompt(num_done)) put(*event);
  }
  if (!is_done) publish();  // so that clients get the events while the step runs
}

// Fails all running sequences: each may share pages that the step was to write. Waiting ones have no pages.
void Engine::Impl::fail_step(const std::exception& error) {
  const std::string why = with_memory([&] { return std::string(error.what()); });
  const std::string message = with_memory([&] { return fmt::format("the model could not be run: {}", why); });
  const std::vector<RequestId> failed = with_memory([&] { return scheduler.remove_running(); });
  const bool is_lost = dynamic_cast<const BackendLost*>(&error);
  ++num_faults;
  for (const RequestId id : failed) fail(id, message);
  count_fault(why, is_lost);
  publish();
}

void Engine::Impl::count_fault(const std::string& why, bool is_lost) {
  num_same_faults = last_fault == why ? num_same_faults + 1 : 1;
  with_memory([&] { last_fault = why; });
  if (is_lost)
    lose(with_memory([&] { return fmt::format("the model can't be run any more: {}", why); }));
  else if (num_same_faults == kMostSameFaults)
    lose(with_memory([&] {
      return fmt::format("the model can't be run any more: {} steps in a row failed: {}", kMostSameFaults,
                         why);
    }));
}

// Declares the engine lost and fails all requests, also the waiting ones.
void Engine::Impl::lose(std::string why) {
  lost = std::move(why);
  while (!sequences.empty()) fail(sequences.begin()->first, lost);
}

void Engine::Impl::publish() {
  static_assert(std::is_nothrow_move_constructible_v<Event>,
                "else insert() below could move some events only");
  const SchedulerOptions& sizes = limits.scheduler;
  PageCounts held;
  for (int cache = 0; cache < sizes.num_kv_caches; ++cache) {
    const auto [full, sliding] = scheduler.num_held_pages(cache);
    held.full += full, held.sliding += sliding;
  }
  std::vector<Counter> steps;
  std::vector<KernelLaunches> launches;
  try {
    steps = backend.counters();
    launches = backend.launches();
  } catch (const std::bad_alloc&) {  // state.steps is updated by the next call
  }
  const bool has_events = !unsent.empty();
  with_memory([&] {
    const std::lock_guard lock(mutex);
    state.num_running = scheduler.num_running();
    state.num_waiting = scheduler.num_waiting();
    state.pages_held = held;
    state.num_pages = sizes.num_kv_caches * sizes.num_pages;
    state.num_faults = num_faults;
    state.counts = scheduler.counts();
    state.drafts = drafting.counts();
    if (!steps.empty()) state.steps = std::move(steps);
    if (!launches.empty()) state.launches = std::move(launches);
    if (state.lost.empty()) state.lost = lost;
    // If memory runs out here, no event is moved, so the next attempt sends each event once.
    if (events.empty())
      events.swap(unsent);
    else
      events.insert(events.end(), std::move_iterator(unsent.begin()), std::move_iterator(unsent.end()));
  });
  unsent.clear();
  if (has_events) event_came.notify_one();
}

// Adds the token of row 0 (draft_tree.h). Then adds the tokens of further rows, as long as their drafts equal
// the added tokens. Returns the number of tokens added, forced tokens included. `made`: new drafts of the
// backend's draft head, which follow the added tokens.
int Engine::Impl::add_tokens(Sequence& sequence, const Slice& slice, const DraftTree& chain,
                             std::span<SampledToken> tokens, const Drafts& made) {
  const size_t num_known = sequence.tokens().size();
  const auto added = [&] { return sequence.tokens().subspan(num_known); };
  const auto num_right = [&] {
    const auto [end, _] =
        std::mismatch(chain.drafts.begin(), chain.drafts.end(), added().begin(), added().end());
    return static_cast<int>(end - chain.drafts.begin());
  };
  std::optional<FailedEvent> failure;
  for (size_t row = 0; row < tokens.size() && !sequence.end() && !failure; ++row) {
    SampledToken& token = tokens[row];
    if (row > 0) {
      const DraftTree::Row& checked = chain.rows[row - 1];
      const int num_before = checked.draft + 1;
      if (num_right() < num_before || std::ssize(added()) != num_before) break;
      if (checked.allowed && checked.allowed->fault()) break;  // row 0 of a later step reports the fault
    }
    if (token.token == -1) {
      failure = sequence.failure_at(static_cast<int>(sequence.tokens().size()) - 1);
      break;
    }
    NIBBLE_CHECK(token.token >= 0 && token.token < limits.vocab,
                 "sampled token {} is not below the vocabulary size {}", token.token, limits.vocab);
    add_token(sequence, std::move(token), row == 0);
    if (sequence.fault()) failure = FailedEvent{slice.request, *sequence.fault(), true};
  }
  const auto num_added = static_cast<int>(added().size());
  const int num_accepted = num_right();
  sequence.count_step(slice.num_drafts, num_accepted);
  if (slice.num_drafts > 0) {
    drafting.count(slice.num_drafts, num_accepted);
    if (!failure) scheduler.accept(slice.request, num_accepted);
  }
  if (failure) {
    end(slice.request, *std::move(failure));
  } else if (sequence.end()) {
    end(slice.request, sequence.finish(*sequence.end()));
  } else {
    drafting.add_tokens(slice.request, sequence, num_known, made);
  }
  return num_added;
}

// Adds a sampled token, then the tokens forced after it. `is_first`: whether `token` is the sequence's first
// token of the step: the scheduler awaits that token.
void Engine::Impl::add_token(Sequence& sequence, SampledToken token, bool is_first) {
  if (is_first)
    scheduler.push(sequence.id(), token.token);
  else
    scheduler.append(sequence.id(), token.token);
  put(sequence.push(std::move(token), *since_step));
  for (auto next = sequence.next_forced(); next && !sequence.end(); next = sequence.next_forced()) {
    scheduler.append(sequence.id(), *next);
    put(sequence.push({.token = *next}, *since_step));
  }
}

void Engine::Impl::end(RequestId id, Event event) {
  if (std::holds_alternative<FinishedEvent>(event)) drafting.keep_answer(sequences.at(id));
  drafting.remove(id);
  scheduler.remove(id);
  for (std::optional<Launched>* step : {&under_way, &ahead})
    if (*step) (*step)->forget(id);
  if (const auto found = sequences.find(id); found != sequences.end()) {
    if (found->second.wants_reports()) --num_reporting;
    sequences.erase(found);
  }
  put(std::move(event));
}

void Engine::Impl::fail(RequestId id, const std::string& message) {
  end(id, with_memory([&] { return FailedEvent{id, message}; }));
}

Engine::Engine(Backend& backend, const Tokenizer& tokenizer, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(backend, tokenizer, options)) {}

Engine::~Engine() = default;

std::optional<std::string> Engine::fault_of(const GenerationRequest& request) const {
  return find_fault(request, impl_->limits);
}

RequestId Engine::submit(GenerationRequest request) { return submit_choices(std::move(request), 1).front(); }

std::vector<RequestId> Engine::submit_choices(GenerationRequest request, int num_choices) {
  NIBBLE_CHECK(num_choices > 0, "{} choices", num_choices);
  const std::optional<std::string> fault = fault_of(request);
  std::vector<RequestId> ids(static_cast<size_t>(num_choices));
  std::vector<Impl::Order> added(fault ? 0 : ids.size());
  const uint64_t seed = request.sample.seed;
  for (size_t choice = 0; choice < added.size(); ++choice) {
    request.sample.seed = choice == 0 ? seed : random_bits(seed, choice);
    added[choice].request = request;
  }
  {
    const std::lock_guard lock(impl_->mutex);  // if memory runs out here, no request is queued
    impl_->orders.reserve(impl_->orders.size() + added.size());
    for (RequestId& id : ids) id = static_cast<RequestId>(++impl_->num_requests);
    for (size_t choice = 0; choice < added.size(); ++choice) {
      added[choice].id = ids[choice];
      impl_->orders.push_back(std::move(added[choice]));
      impl_->progress.begin_work();
    }
  }
  if (!fault) {
    impl_->order_came.notify_one();
    return ids;
  }
  for (const RequestId id : ids)
    with_memory([&] {
      const std::lock_guard lock(impl_->mutex);
      impl_->events.push_back(FailedEvent{id, *fault, true});
    });
  impl_->event_came.notify_one();
  return ids;
}

void Engine::cancel(RequestId request) {
  with_memory([&] {
    const std::lock_guard lock(impl_->mutex);
    impl_->orders.push_back({.id = request});
  });
  impl_->order_came.notify_one();
}

EngineState Engine::state() const {
  const std::lock_guard lock(impl_->mutex);
  EngineState state = impl_->state;
  state.progress = impl_->progress.read();
  return state;
}

std::optional<Event> Engine::wait_event(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->event_came.wait_for(lock, timeout, [&] { return !impl_->events.empty(); })) return {};
  std::optional<Event> event = std::move(impl_->events[impl_->num_taken++]);
  if (impl_->num_taken == impl_->events.size()) {
    impl_->events.clear();
    impl_->num_taken = 0;
  }
  return event;
}

std::vector<Event> Engine::wait_events(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  impl_->event_came.wait_for(lock, timeout, [&] { return !impl_->events.empty(); });
  impl_->events.erase(impl_->events.begin(),
                      impl_->events.begin() + static_cast<ptrdiff_t>(std::exchange(impl_->num_taken, 0)));
  return std::exchange(impl_->events, {});
}

}  // namespace nibble
