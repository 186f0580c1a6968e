// The engine's loop: take new requests, plan a step, run it, send out its events. Two queues connect it to other threads:
// requests and cancellations in, events out. Everything else belongs to the engine's thread alone.
#include "engine/engine.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/error.h"
#include "core/random.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/validate.h"

namespace nibble {
namespace {

RequestLimits limits_of(const Config& config, const EngineOptions& options) {
  if (options.max_batch_tokens < 1)
    throw InputError("max_batch_tokens is {}: a step needs at least 1 row", options.max_batch_tokens);
  if (options.max_sequences < 1)
    throw InputError("max_sequences is {}: it must be 1 or more", options.max_sequences);
  if (options.max_context < 0 || options.max_context > config.max_context)
    throw InputError(
        "the context is {} tokens: it must be 1 to {}, which the model was made for, or 0 for all",
        options.max_context, config.max_context);
  if (options.num_full_pages < 1 || options.num_sliding_pages < 1)
    throw InputError(
        "the KV cache has {} pages for full and {} for sliding-window layers: it needs 1 or more",
        options.num_full_pages, options.num_sliding_pages);
  return {.vocab = config.vocab,
          .max_context = options.max_context > 0 ? options.max_context : config.max_context,
          .scheduler = {.max_batch_tokens = options.max_batch_tokens,
                        .max_sequences = options.max_sequences,
                        .num_full_pages = options.num_full_pages,
                        .num_sliding_pages = options.num_sliding_pages,
                        .window = config.window,
                        .prefix_cache = options.prefix_cache}};
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
        scheduler(limits.scheduler),
        on_step(options.on_step) {
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
  bool take_orders();  // waits while there is nothing to do; returns false when the engine is to end
  void step();
  StepResult run_backend(const std::vector<Slice>& slices);
  void publish();  // copies the state to where other threads may read it
  void hand_out(const Slice& slice, SampledToken token);
  void end(RequestId id, Event event);
  void put(Event event);

  Backend& backend;
  const Tokenizer& tokenizer;
  const RequestLimits limits;

  mutable std::mutex mutex;  // guards the members up to `state`
  std::condition_variable order_came, event_came;
  std::deque<Order> orders;
  std::deque<Event> events;
  bool is_closing{false};
  uint64_t num_requests{0};
  EngineState state;

  // Used by the engine's thread only.
  Scheduler scheduler;
  std::unordered_map<RequestId, Sequence> sequences;
  uint64_t num_faults{0};
  std::function<void(const StepReport&)> on_step;
  double backend_seconds{0};  // of the current step

  std::thread thread;  // last, so that it starts when the other members exist
};

void Engine::Impl::run() {
  while (take_orders()) step();
}

bool Engine::Impl::take_orders() {
  std::deque<Order> taken;
  {
    std::unique_lock lock(mutex);
    order_came.wait(lock, [&] { return is_closing || !orders.empty() || !scheduler.is_idle(); });
    if (is_closing) return false;
    taken.swap(orders);
  }
  for (Order& order : taken) {
    if (order.request) {
      const int max_output = max_output_tokens(*order.request, limits);
      scheduler.add(order.id, order.request->prompt, max_output);
      sequences.try_emplace(order.id, order.id, std::move(*order.request), max_output, tokenizer,
                            order.submitted);
    } else if (const auto found = sequences.find(order.id); found != sequences.end()) {
      end(order.id, found->second.finish(FinishReason::kCancelled));
    }
  }
  if (!taken.empty()) publish();
  return true;
}

void Engine::Impl::step() {
  const Stopwatch watch;
  const std::vector<Slice> slices = scheduler.next();
  publish();
  if (slices.empty()) return;  // everything was cancelled
  for (const Slice& slice : slices) sequences.at(slice.request).start(slice.first_position);

  StepResult result;
  try {
    result = run_backend(slices);
  } catch (const std::exception& error) {
    ++num_faults;
    publish();  // before the events, so that whoever sees one finds the fault counted
    // All sequences of the step fail, because their keys and values may be half written; no others are touched.
    for (const Slice& slice : slices)
      end(slice.request,
          FailedEvent{slice.request, fmt::format("the model could not be run: {}", error.what())});
    publish();
    return;
  }
  auto output = result.outputs.begin();
  for (const Slice& slice : slices) {
    if (!slice.gives_token) {
      scheduler.advance(slice, {});
      continue;
    }
    scheduler.advance(slice, output->token);
    hand_out(slice, std::move(*output++));
  }
  publish();
  if (!on_step) return;
  StepReport report{.num_sequences = static_cast<int>(slices.size()), .backend_seconds = backend_seconds};
  for (const Slice& slice : slices) report.num_tokens += slice.num_tokens;
  report.other_seconds = watch.seconds() - backend_seconds;
  on_step(report);
}

void Engine::Impl::publish() {
  const PagePool &full = scheduler.full_pool(), &sliding = scheduler.sliding_pool();
  const std::lock_guard lock(mutex);
  state = {.num_running = scheduler.num_running(),
           .num_waiting = scheduler.num_waiting(),
           .pages_held = {full.num_pages() - full.num_free(), sliding.num_pages() - sliding.num_free()},
           .pages = {full.num_pages(), sliding.num_pages()},
           .num_faults = num_faults,
           .counts = scheduler.counts()};
}

StepResult Engine::Impl::run_backend(const std::vector<Slice>& slices) {
  std::vector<OutputRow> outputs;
  std::vector<Run> runs;
  outputs.reserve(slices.size());  // the runs hold spans of it
  for (const Slice& slice : slices) {
    const Sequence& sequence = sequences.at(slice.request);
    const size_t first_output = outputs.size();
    if (slice.gives_token)
      outputs.push_back({.token_index = slice.num_tokens - 1,
                         .sample = &sequence.sample(),
                         .prompt = sequence.prompt(),
                         .output = sequence.output()});
    runs.push_back({.tokens = sequence.tokens().subspan(static_cast<size_t>(slice.first_position),
                                                        static_cast<size_t>(slice.num_tokens)),
                    .first_position = slice.first_position,
                    .full = slice.full,
                    .sliding = slice.sliding,
                    .outputs = std::span(outputs).subspan(first_output)});
  }
  const Stopwatch watch;
  StepResult result = backend.step({.runs = runs});
  backend_seconds = watch.seconds();
  NIBBLE_CHECK(result.outputs.size() == outputs.size(), "{} tokens for {} rows", result.outputs.size(),
               outputs.size());
  return result;
}

void Engine::Impl::hand_out(const Slice& slice, SampledToken token) {
  Sequence& sequence = sequences.at(slice.request);
  if (token.token == -1) {
    const int position = slice.first_position + slice.num_tokens - 1;
    end(slice.request,
        FailedEvent{slice.request, fmt::format("the model gave no number as logit at position {}: its "
                                               "weights may be damaged",
                                               position)});
    return;
  }
  NIBBLE_CHECK(token.token >= 0 && token.token < limits.vocab, "token {} of {}", token.token, limits.vocab);
  put(sequence.push(std::move(token)));
  if (sequence.end()) end(slice.request, sequence.finish(*sequence.end()));
}

// The pages are freed before the event is sent, so that its receiver can rely on them.
void Engine::Impl::end(RequestId id, Event event) {
  scheduler.remove(id);
  sequences.erase(id);
  put(std::move(event));
}

void Engine::Impl::put(Event event) {
  {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(event));
  }
  event_came.notify_one();
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
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(impl_->mutex);
    const uint64_t seed = request.sample.seed;
    for (int choice = 0; choice < num_choices; ++choice) {
      ids.push_back(static_cast<RequestId>(++impl_->num_requests));
      if (fault) continue;
      request.sample.seed = choice == 0 ? seed : random_bits(seed, static_cast<uint64_t>(choice));
      impl_->orders.push_back({.id = ids.back(), .request = request});
    }
  }
  if (fault)
    for (const RequestId id : ids) impl_->put(FailedEvent{id, *fault});
  else
    impl_->order_came.notify_one();
  return ids;
}

void Engine::cancel(RequestId request) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->orders.push_back({.id = request});
  }
  impl_->order_came.notify_one();
}

EngineState Engine::state() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->state;
}

std::optional<Event> Engine::wait_event(std::chrono::milliseconds timeout) {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->event_came.wait_for(lock, timeout, [&] { return !impl_->events.empty(); })) return {};
  Event event = std::move(impl_->events.front());
  impl_->events.pop_front();
  return event;
}

}  // namespace nibble
