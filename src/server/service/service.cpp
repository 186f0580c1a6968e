#include "server/service/service.h"

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>
#include <variant>

#include "core/errors/error.h"
#include "core/program/log.h"
#include "server/api/ollama_request.h"
#include "server/http/http_error.h"
#include "server/http/random_id.h"
#include "server/service/engine_gate.h"
#include "server/service/grammar_shelf.h"
#include "server/service/parse_pool.h"
#include "server/service/silence.h"

namespace nibble::server {

namespace {

uint64_t hash(std::string_view text) {  // FNV-1a
  uint64_t sum = 0xcbf29ce484222325;
  for (const char byte : text) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

// Returns at least 2, to keep a thread free for short jobs, and at most 4: the engine needs processors too.
size_t num_parse_threads() { return std::clamp(std::thread::hardware_concurrency() / 2, 2u, 4u); }

struct Count {
  explicit Count(int& number) : number_(number) { ++number_; }
  ~Count() { --number_; }
  int& number_;
};

}  // namespace

Service::Service(const ServerOptions& given)
    : options(given),
      keys(given.api_keys),
      fingerprint(fmt::format("fp_{:016x}", hash(given.version + "\n" + given.model_id))),
      responses(given.max_response_bytes),
      kept_answers({given.max_kept_bytes, given.keep_time}),
      metrics(given.model_id, given.version),
      parse_pool(std::make_unique<ParsePool>(num_parse_threads())) {
  on_reload.emplace_back([this] { reload_keys(*this); });
}

Service::~Service() = default;

void Service::reload() {
  log::info("SIGHUP: reloading");
  for (const auto& reload_one : on_reload) {
    try {
      reload_one();
    } catch (const std::exception& error) {  // The old values stay in use.
      log::warn("a reload failed: {}", error.what());
    }
  }
}

void reload_keys(Service& service) {
  if (!service.options.reload_keys) return;
  try {
    service.keys = service.options.reload_keys();
    log::info("reloaded {} API keys", service.keys.size());
  } catch (const InputError& error) {
    log::error("could not reload the API keys; keeping the old ones: {}", error.what());
  }
}

asio::awaitable<void> offload_if_long(Service& service, Exchange& exchange, std::function<void()> work) {
  constexpr size_t kShortBytes{16 << 10};  // takes a few milliseconds to parse
  const size_t num_bytes = exchange.body().size();
  if (num_bytes <= kShortBytes) {
    work();
    co_return;
  }
  const Count count(service.num_offloaded);
  co_await service.parse_pool->run(num_bytes, std::move(work), [&](std::function<void()> drop) {
    exchange.on_disconnect(std::move(drop));
  });
}

asio::awaitable<void> tokenise(Service& service, Exchange& exchange, std::function<void()> work) {
  co_await offload_if_long(service, exchange, std::move(work));
  exchange.record().times.tokenised = exchange.record().clock.seconds();
}

asio::awaitable<void> offload_if(Service& service, bool is_long, std::function<void()> work) {
  if (!is_long) {
    work();
    co_return;
  }
  const Count count(service.num_offloaded);
  co_await service.parse_pool->run(0, std::move(work), [](const std::function<void()>&) {});
}

namespace {

std::optional<AdapterId> find_adapter(const Service& service, std::string_view name) {
  const auto& adapters = service.options.adapters;
  const auto found = std::ranges::find(adapters, name, &ServedAdapter::name);
  if (found == adapters.end()) return std::nullopt;
  return static_cast<AdapterId>(found - adapters.begin());
}

bool is_models_own(const Service& service, std::string_view name) {
  const std::vector<std::string>& aliases = service.options.aliases;
  return name == service.options.model_id || std::ranges::find(aliases, name) != aliases.end();
}

std::optional<ChosenModel> find_exactly(const Service& service, std::string_view name) {
  if (is_models_own(service, name)) return ChosenModel{service.options.model_id};
  if (const auto adapter = find_adapter(service, name)) return ChosenModel{std::string(name), adapter};
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || !is_models_own(service, name.substr(0, colon))) return std::nullopt;
  const std::string_view after = name.substr(colon + 1);
  const auto adapter = find_adapter(service, after);
  return adapter ? std::optional(ChosenModel{std::string(after), adapter}) : std::nullopt;
}

}  // namespace

ChosenModel find_model(const Service& service, const std::string& name) {
  if (auto found = find_exactly(service, name)) return *std::move(found);
  if (auto found = find_exactly(service, without_tag(name))) return *std::move(found);
  std::string served = fmt::format("`{}`", service.options.model_id);
  for (const ServedAdapter& adapter : service.options.adapters) served += fmt::format(", `{}`", adapter.name);
  HttpError error(404, "The model `{}` does not exist. This server has {}.", name, served);
  error.param = "model";
  error.code = "model_not_found";
  throw error;
}

ChosenModel find_model(const Service& service, const GenerationParams& params) {
  return params.model ? find_model(service, *params.model) : ChosenModel{service.options.model_id};
}

std::string parent_of(const Service& service, const ChosenModel& model) {
  return model.adapter ? service.options.adapters[static_cast<size_t>(*model.adapter)].parent : "";
}

void check_model(const Service& service, const GenerationParams& params) { find_model(service, params); }
void check_model(const Service& service, const std::string& name) { find_model(service, name); }

void apply_options(const Service& service, GenerationParams& params) {
  if (params.stream) params.stream_interval = service.options.stream_interval;
  const int most = service.options.max_output_tokens;
  if (most == 0 || (params.max_tokens && *params.max_tokens <= most)) return;
  if (params.max_tokens) params.ignored.add("max_tokens", fmt::format("{}", most));
  params.max_tokens = most;
}

namespace {

class TimeLimit {
 public:
  explicit TimeLimit(const ServerOptions& options) : options_(options), start_(options.now()) {}
  // Returns `patience`, or the time until the limit if that is shorter; nullopt after the limit.
  std::optional<std::chrono::milliseconds> wait_at_most(std::chrono::milliseconds patience) const {
    if (options_.request_timeout.count() == 0) return patience;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(start_ + options_.request_timeout - options_.now());
    if (left.count() <= 0) return std::nullopt;
    return std::min(left, patience);
  }

 private:
  const ServerOptions& options_;
  const std::chrono::steady_clock::time_point start_;
};

// During its lifetime a disconnect abandons `generation`. Must be destroyed before `generation`.
class DisconnectGuard {
 public:
  DisconnectGuard(Exchange& exchange, Generation& generation) : exchange_(exchange) {
    exchange.on_disconnect([&generation] { generation.abandon(); });
  }
  ~DisconnectGuard() { exchange_.on_disconnect(nullptr); }
  DisconnectGuard(const DisconnectGuard&) = delete;
  DisconnectGuard& operator=(const DisconnectGuard&) = delete;

 private:
  Exchange& exchange_;
};

}  // namespace

void note_ignored(const Service& service, Exchange& exchange, const IgnoredFields& ignored) {
  if (ignored.empty()) return;
  if (service.options.is_strict) {
    HttpError error(400,
                    "this server runs with --strict, and these fields have no effect: {}. Leave them out.",
                    ignored.text());
    error.param = ignored.first();
    throw error;
  }
  exchange.add_header("X-Nibble-Ignored", ignored.text());
  log::info("{} ignored {}", exchange.id(), ignored.text());
}

ReplyHead new_reply(const Service& service, std::string_view id_prefix, const GenerationParams& params) {
  return {std::string(id_prefix) + random_id(), std::time(nullptr), find_model(service, params).id,
          service.fingerprint};
}

asio::awaitable<void> reply_json(Exchange& exchange, int status, const Json& json) {
  return exchange.reply(status, kJsonType, print(json) + "\n");
}

namespace {

// Returns a cache salt that differs between owners, even if clients send the same salt. The length of the
// owner's name separates owner and salt.
std::string salt_of(const std::string& owner, const std::string& said) {
  return fmt::format("{}:{}{}", owner.size(), owner, said);
}

// Ends answers at the request timeout. Returns the text with which a stream ends. Throws HttpError (504) if
// no token was generated.
std::string end_late(Generation& running, ChoiceListener& listener, const Exchange& exchange,
                     bool has_tokens) {
  log::warn("{} ran longer than --request-timeout", exchange.id());
  const std::vector<size_t> open = running.open_choices();
  for (const size_t choice : open)
    running.drop_choice(choice, has_tokens ? Outcome::kLength : Outcome::kError);
  if (!has_tokens)
    throw HttpError(504,
                    "the request waited longer than this server allows without a first token; try again "
                    "later, or with a shorter prompt");
  std::string events;
  for (const size_t choice : open) events += listener.on_end(choice, FinishReason::kMaxTokens, "");
  return events;
}

// Passes the engine's events to the listener, and counts the tokens of the answers.
class ReplyEvents {
 public:
  ReplyEvents(Generation& running, const GenerationParams& params, ChoiceListener& listener,
              Exchange& exchange)
      : running_(running),
        params_(params),
        listener_(listener),
        exchange_(exchange),
        has_begun_(running.num_choices()),
        num_open_(running.num_choices()) {}

  bool are_complete() const { return num_open_ == 0; }
  const TokenCounts& counts() const { return counts_; }

  // Returns the text that a stream sends for this event. Throws HttpError if the request failed.
  std::string on(Generation::ChoiceEvent& next) {
    if (auto* token = std::get_if<TokenEvent>(&next.event)) return on_token(next.choice, *token);
    if (auto* prompt = std::get_if<PromptEvent>(&next.event))
      return listener_.on_prompt(next.choice, *prompt);
    if (auto* finished = std::get_if<FinishedEvent>(&next.event)) return on_finished(next.choice, *finished);
    const auto& failed = std::get<FailedEvent>(next.event);
    log::warn("{} failed: {}", exchange_.id(), failed.message);
    HttpError error(failed.is_requests_own ? 400 : 500, "{}", failed.message);
    if (failed.is_requests_own) error.param = params_.format.name();
    throw error;
  }

 private:
  std::string on_token(size_t choice, TokenEvent& token) {
    RequestRecord& record = exchange_.record();
    note_times(record.times, token);
    ++counts_.num_output;
    // Count cached tokens once per prompt, because the choices of a prompt share them.
    if (!has_begun_[choice] && choice % static_cast<size_t>(params_.num_choices) == 0)
      counts_.num_cached += token.num_cached_tokens;
    has_begun_[choice] = true;
    record.num_output_tokens = counts_.num_output;
    record.num_cached_tokens = counts_.num_cached;
    std::string events = listener_.on_token(choice, token);
    if (listener_.has_enough(choice)) {
      running_.drop_choice(choice, Outcome::kStop);
      events += listener_.on_end(choice, FinishReason::kStopString, "");
      record.finish_reason = name(Outcome::kStop);
      --num_open_;
    }
    return events;
  }
  static void note_times(RequestTimes& times, const TokenEvent& token) {
    const double first_kernel = *times.queued + token.queue_seconds;
    const double sampled = first_kernel + token.run_seconds;
    if (!times.first_token) {
      times.first_kernel = first_kernel;
      times.first_token = sampled;
    }
    times.last_token = std::max(times.last_token.value_or(0), sampled);
  }
  std::string on_finished(size_t choice, FinishedEvent& finished) {
    if (finished.reason == FinishReason::kCancelled)
      throw HttpError(503, "the server shut down before this request was complete");
    std::string events = listener_.on_end(choice, finished.reason, finished.text);
    exchange_.record().finish_reason = name(outcome_of(finished.reason));
    --num_open_;
    return events;
  }

  Generation& running_;
  const GenerationParams& params_;
  ChoiceListener& listener_;
  Exchange& exchange_;
  TokenCounts counts_;
  std::vector<bool> has_begun_;
  size_t num_open_;
};

// Fills in the request's record at its start. With --isolate-keys, cache salts differ between owners.
void note_start(const Service& service, const GenerationParams& params, RequestRecord& record,
                std::vector<GenerationRequest>& prompts) {
  record.model = params.model.value_or(service.options.model_id);
  for (GenerationRequest& prompt : prompts) {
    record.num_prompt_tokens += static_cast<int>(prompt.prompt.size());
    if (service.options.isolate_keys) prompt.cache_salt = salt_of(record.key_owner, prompt.cache_salt);
  }
  record.finish_reason = name(Outcome::kError);  // The reason unless the request ends in another way.
}

}  // namespace

asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<GenerationRequest> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener) {
  RequestRecord& record = exchange.record();
  note_start(service, params, record, prompts);
  Generation running(*service.gate, std::move(prompts), params.num_choices);
  record.times.queued = record.clock.seconds_to(running.submitted());
  const DisconnectGuard guard(exchange, running);
  const TimeLimit limit(service.options);
  ReplyEvents reply(running, params, listener, exchange);
  std::string first = listener.on_queued();
  if (params.stream && !first.empty()) co_await exchange.write_events(std::move(first));
  Silence silence(service.options.keep_alive);
  while (!reply.are_complete()) {
    const auto wait = silence.time_left();
    const auto patience = limit.wait_at_most(wait);
    if (!patience) {
      std::string events = end_late(running, listener, exchange, reply.counts().num_output > 0);
      record.finish_reason = name(Outcome::kLength);
      if (params.stream && !events.empty()) co_await exchange.write_events(std::move(events));
      break;
    }
    std::optional<Generation::ChoiceEvent> next = co_await running.next(*patience);
    if (running.is_abandoned()) {
      record.finish_reason = name(Outcome::kAbort);
      co_return std::nullopt;
    }
    // The wait ended at the request timeout. The next round handles that.
    if (!next && *patience < wait) continue;
    std::string events = next ? reply.on(*next) : "";
    // One write for all tokens that have arrived: with drafts, a step adds several.
    while (!reply.are_complete() && running.has_token()) {
      next = co_await running.next(*patience);
      events += reply.on(*next);
    }
    // Tokens without events, such as those of hidden reasoning, do not end the silence.
    const bool is_silent = events.empty() && !reply.are_complete() && silence.is_over();
    if (is_silent && params.stream) events = listener.on_silence();
    if (is_silent || !events.empty()) silence.begin_again();
    if (params.stream && !events.empty()) co_await exchange.write_events(std::move(events));
  }
  co_return reply.counts();
}

asio::awaitable<void> end_stream(Exchange& exchange, const GenerationParams& params, const Json& usage) {
  // Built outside co_await: GCC 12 destroys the temporaries of a conditional inside it twice.
  std::string last;
  if (params.include_usage) last += sse_event(usage);
  last += kSseDone;
  co_await exchange.write_events(std::move(last));
  co_await exchange.end_events(200);
}

}  // namespace nibble::server
