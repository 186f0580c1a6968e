// The engine's loop: take new requests, plan a step, launch it, finish it. The requests (requests.h) get the
// tokens of the step; queues (engine_queues.h) connect the loop with other threads. All else belongs to the
// engine's thread. If the backend allows it (Backend::steps_ahead), the next step is planned and launched
// before the tokens of the current step are known; stop rules, text and events are processed while it runs.
// Drafts and constraints depend on known tokens: with either, a step starts only after the previous one has
// ended. The exception is drafts that the backend makes itself, which need not be known at launch
// (Drafting::launches_before_drafts). If no running answer continues, the next step only prefills and first
// waits for more prompts (gathering.h).
#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "core/errors/check.h"
#include "core/memory/with_memory.h"
#include "core/threads/thread_name.h"
#include "engine/drafting.h"
#include "engine/engine_queues.h"
#include "engine/faults.h"
#include "engine/requests.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_batch.h"
#include "engine/step_pace.h"
#include "engine/validate.h"

namespace nibble {
namespace {

int num_rows_of(const Launched& step) {
  int num_rows = 0;
  for (const Slice& slice : step.slices) num_rows += slice.num_tokens;
  return num_rows;
}

std::vector<RequestId> requests_of(const Launched& step) {
  std::vector<RequestId> requests;
  for (const Slice& slice : step.slices) requests.push_back(slice.request);
  return requests;
}

// Returns the number of rows that continue answers, drafts included. The other rows belong to prompts.
int num_decode_rows_of(const Launched& step) {
  int num_rows = 0;
  for (const Slice& slice : step.slices)
    if (slice.num_tokens - slice.num_drafts == 1) num_rows += slice.num_tokens;
  return num_rows;
}

SchedulerOptions scheduler_options(const RequestLimits& limits, bool launches_before_drafts) {
  SchedulerOptions options = limits.scheduler;
  options.launches_before_drafts = launches_before_drafts;
  return options;
}

}  // namespace

struct Engine::Impl {
  Impl(Backend& model, const Tokenizer& vocabulary, const EngineOptions& options)
      : backend(model),
        tokenizer(vocabulary),
        limits(limits_of(model.config(), options)),
        drafting(options, model),
        scheduler(scheduler_options(limits, drafting.launches_before_drafts())),
        requests(limits.vocab, {scheduler, drafting, steps, queues}),
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
    queues.close();
    thread.join();
  }

  void run();
  bool advance();  // returns false when the engine must end
  void discard_steps();
  void recover(const std::string& why);
  bool take_orders();  // waits while there is no work; returns false when the engine must end
  void take(EngineQueues::Order& order);
  // Waits briefly, if no step runs, for prompts to share the next step. Returns false if the engine must end.
  bool gather();
  // Whether the next step must wait for the tokens of the step under way: drafts may follow these tokens, or
  // they decide how a sequence is sampled (constraints). Without waiting, such a sequence could run only in
  // every second step. With waiting, the device idles during the host's work between the steps.
  bool waits_for_tokens() const {
    return backend.steps_ahead() > 0 &&
           (scheduler.waits_for_tokens() || drafting.waits_for_tokens(*steps.under_way));
  }
  // Returns nullopt if no sequence can run, the launch failed, or the step was given up.
  std::optional<Launched> launch();
  // Launches `step`. A backend that runs no steps ahead may give it up and throw StepCut.
  void launch(const Launched& step, Batch batch);
  std::vector<Slice> plan(Drafting::Trees& trees);
  const Launched* step_under_way() const { return steps.under_way ? &*steps.under_way : nullptr; }
  void finish();  // waits for the step under way and completes it, unless it failed
  std::optional<StepResult> collect(const Launched& step);  // returns nullopt if the step failed
  // Hands out the tokens of a step. If no step is `ahead`, the draft model then makes drafts for the next.
  void complete(Launched& step, StepResult& result);
  StepReport measure(const Launched& step, const StepResult& result);
  void fail_step(const std::exception& error);
  // Counts a failed step. Fails all requests if the engine is now lost.
  void count_fault(const std::string& why, bool is_lost);
  EngineState state();
  // Publishes the state and the events put since the last call.
  void publish() {
    queues.publish(with_memory([&] { return state(); }));
  }

  Backend& backend;
  const Tokenizer& tokenizer;
  const RequestLimits limits;
  EngineQueues queues;

  // The members below are used by the engine's thread only.
  Drafting drafting;
  Scheduler scheduler;
  LaunchedSteps steps;
  int num_launched{0};  // steps launched and not collected yet
  Requests requests;
  Faults faults;
  std::function<void(const StepReport&)> on_step;
  Gathering gathering;
  std::optional<StepPace> pace;         // set if itl_target is set
  std::optional<Stopwatch> since_step;  // started when the last step ended
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
      with_memory([&] { recover(cause_of(error)); });
    }
  }
  discard_steps();
}

bool Engine::Impl::advance() {
  if (!take_orders() || !gather()) return false;
  if (!faults.lost().empty()) steps.under_way.reset();
  if (steps.under_way && (!scheduler.goes_on() || waits_for_tokens())) {
    finish();
    if (!scheduler.goes_on()) return true;
  }
  steps.ahead = launch();
  if (steps.under_way) finish();
  steps.under_way = std::exchange(steps.ahead, std::nullopt);
  if (steps.under_way && backend.steps_ahead() == 0) finish();
  return true;
}

// Drops the steps under way. Does not wait for a lost backend, which may never answer.
void Engine::Impl::discard_steps() {
  for (; num_launched > 0; --num_launched) {
    if (!faults.lost().empty()) continue;
    try {
      backend.wait();
    } catch (const std::exception&) {
    }
  }
  steps = {};
  queues.progress().end_all_steps();
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
  for (auto& [id, sequence] : requests.sequences()) sequence.take_prompt_rows_again();
  if (youngest) requests.fail(*youngest, message);
  count_fault(why, false);
  publish();
}

bool Engine::Impl::take_orders() {
  const bool is_idle = scheduler.is_idle() && !steps.under_way;
  if (is_idle) {
    decode_ended_ns.reset();
    gathering.end();
  }
  std::optional<std::vector<EngineQueues::Order>> taken = queues.take_orders(is_idle);
  if (!taken) return false;
  for (EngineQueues::Order& order : *taken) {
    try {
      take(order);
    } catch (const std::exception& error) {
      requests.fail(order.id, with_memory([&] {
                      return fmt::format("the request could not be queued: {}", cause_of(error));
                    }));
    }
  }
  if (!taken->empty()) publish();
  return true;
}

void Engine::Impl::take(EngineQueues::Order& order) {
  if (!order.request) return requests.cancel(order.id);
  if (!faults.lost().empty()) return requests.fail(order.id, faults.lost());
  requests.add(order, max_output_tokens(*order.request, limits), tokenizer);
  gathering.count(order.submitted);
}

bool Engine::Impl::gather() {
  if (steps.under_way || scheduler.is_idle() || scheduler.goes_on()) return true;
  gathering.begin(scheduler.num_waiting());
  while (!scheduler.is_idle()) {  // the scheduler becomes idle if all its requests are cancelled
    const auto left = gathering.left(scheduler.num_waiting());
    if (!left) break;
    queues.wait_for_order(*left);
    if (!take_orders()) return false;
  }
  return true;
}

std::vector<Slice> Engine::Impl::plan(Drafting::Trees& trees) {
  if (pace) scheduler.limit_prompt_rows(pace->max_prompt_rows());
  if (!drafting.is_on()) return scheduler.next();
  return scheduler.next(
      [&](const DraftRoom& room) { trees = drafting.plan(room, requests.sequences(), step_under_way()); });
}

std::optional<Launched> Engine::Impl::launch() {
  const Stopwatch planning;
  Drafting::Trees trees;
  Launched next{.slices = plan(trees)};
  requests.report_places();
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
  if (!steps.under_way) next.planning_seconds = planning.seconds();
  next.clock = {};
  next.num_rows = num_rows_of(next);
  queues.progress().begin_step(next.num_rows);
  try {
    const StepBatch batch(next, step_under_way(), drafting.head());
    for (const Slice& slice : next.slices) slice.sequence->start(slice.first_position);
    if (requests.report_prompts(next.slices, /*is_done=*/false))
      publish();  // so that clients get the events while the step runs
    launch(next, batch.batch());
    ++num_launched;
  } catch (const std::bad_alloc&) {
    throw;  // run() calls recover(): the retry may find memory
  } catch (const StepCut&) {
    queues.progress().end_step(next.num_rows);
    // No request needs the step: all are about to be cancelled, or the engine must end.
    for (const Slice& slice : next.slices) scheduler.discard(slice.request, slice.first_position);
    return {};
  } catch (const std::exception& error) {
    queues.progress().end_step(next.num_rows);
    fail_step(error);
    return {};
  }
  return next;
}

void Engine::Impl::launch(const Launched& step, Batch batch) {
  if (backend.steps_ahead() > 0) return backend.launch(batch);
  const EngineQueues::NeededStep needed(queues, requests_of(step));
  batch.is_unneeded = &queues.is_unneeded();
  backend.launch(batch);
}

void Engine::Impl::finish() {
  if (std::optional<StepResult> result = collect(*steps.under_way)) complete(*steps.under_way, *result);
  steps.under_way.reset();
}

std::optional<StepResult> Engine::Impl::collect(const Launched& step) {
  try {
    --num_launched;
    StepResult result = backend.wait();
    queues.progress().end_step(step.num_rows);
    return result;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    queues.progress().end_step(step.num_rows);
    since_step.emplace();
    decode_ended_ns.reset();
    if (step.slices.empty()) return {};
    fail_step(error);
    // fail_step() also failed the sequences of `ahead`. Without slices, the result of `ahead` is ignored.
    if (steps.ahead) *steps.ahead = {.num_rows = steps.ahead->num_rows};
    return {};
  }
}

void Engine::Impl::complete(Launched& step, StepResult& result) {
  const std::optional<Launched>& ahead = steps.ahead;
  StepReport report = measure(step, result);
  const Stopwatch& handing_out = since_step.emplace();
  if (!step.slices.empty()) faults.count_success();
  const int num_tokens = requests.hand_out(step, result, handing_out);
  requests.report_prompts(step.slices, /*is_done=*/true);
  publish();
  const speculative::DraftModel::CatchUp catch_up =
      ahead ? speculative::DraftModel::CatchUp{} : drafting.draft(step);
  if (!ahead) report.other_seconds += handing_out.seconds();
  drafting.learn({step, report, num_tokens, ahead ? &*ahead : nullptr, catch_up});
  if (on_step) on_step(report);
}

StepReport Engine::Impl::measure(const Launched& step, const StepResult& result) {
  StepReport report{.num_tokens = num_rows_of(step),
                    .num_sequences = static_cast<int>(step.slices.size()),
                    .backend_seconds = step.clock.seconds(),
                    .other_seconds = step.planning_seconds};
  if (since_step) report.backend_seconds = std::min(report.backend_seconds, since_step->seconds());
  queues.progress().learn(report.num_tokens, report.backend_seconds);
  if (step.has_prompts_alone) gathering.learn(report.backend_seconds);
  const int num_decode_rows = num_decode_rows_of(step);
  if (pace) pace->learn(num_decode_rows, report.num_tokens - num_decode_rows, report.backend_seconds);
  const bool is_timed = result.device_times && !step.has_prompt;
  if (is_timed && decode_ended_ns)
    report.device_idle_seconds = 1e-9 * static_cast<double>(result.device_times->begin_ns - *decode_ended_ns);
  decode_ended_ns = is_timed ? std::optional(result.device_times->end_ns) : std::nullopt;
  return report;
}

// Fails all running sequences: each may share pages that the step was to write. Waiting ones have no pages.
void Engine::Impl::fail_step(const std::exception& error) {
  const std::string why = with_memory([&] { return std::string(error.what()); });
  const std::string message = with_memory([&] { return fmt::format("the model could not be run: {}", why); });
  const std::vector<RequestId> failed = with_memory([&] { return scheduler.remove_running(); });
  const bool is_lost = dynamic_cast<const BackendLost*>(&error);
  for (const RequestId id : failed) requests.fail(id, message);
  count_fault(why, is_lost);
  publish();
}

void Engine::Impl::count_fault(const std::string& why, bool is_lost) {
  faults.count(why, is_lost);
  if (!faults.lost().empty()) requests.fail_all(faults.lost());
}

EngineState Engine::Impl::state() {
  const SchedulerOptions& sizes = limits.scheduler;
  EngineState state{.num_running = scheduler.num_running(),
                    .num_waiting = scheduler.num_waiting(),
                    .num_pages = sizes.num_kv_caches * sizes.num_pages,
                    .num_faults = faults.num(),
                    .counts = scheduler.counts(),
                    .drafts = drafting.counts(),
                    .lost = faults.lost()};
  for (int cache = 0; cache < sizes.num_kv_caches; ++cache) {
    const auto [full, sliding] = scheduler.num_held_pages(cache);
    state.pages_held.full += full, state.pages_held.sliding += sliding;
  }
  try {
    state.steps = backend.counters();
    state.launches = backend.launches();
  } catch (const std::bad_alloc&) {  // out of memory: the published counts stay until the next call
  }
  return state;
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
  return impl_->queues.submit(std::move(request), num_choices, fault);
}

void Engine::cancel(RequestId request) { impl_->queues.cancel(request); }

EngineState Engine::state() const { return impl_->queues.state(); }

std::optional<Event> Engine::wait_event(std::chrono::milliseconds timeout) {
  return impl_->queues.wait_event(timeout);
}

std::vector<Event> Engine::wait_events(std::chrono::milliseconds timeout) {
  return impl_->queues.wait_events(timeout);
}

}  // namespace nibble
