#include "server/service/service.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/log.h"
#include "server/api/ollama_request.h"
#include "server/http/http_error.h"
#include "server/http/random_id.h"
#include "server/service/constraint.h"
#include "server/service/engine_gate.h"
#include "server/service/parse_pool.h"

namespace nibble::server {

namespace {

// FNV-1a.
uint64_t hash(std::string_view text) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const char byte : text) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

// At least 2, so that one is free for short jobs; at most 4, because the engine needs most processors.
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
    } catch (const std::exception& error) {  // keep what was read before
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

asio::awaitable<void> offload_if(Service& service, bool is_long, std::function<void()> work) {
  if (!is_long) {
    work();
    co_return;
  }
  const Count count(service.num_offloaded);
  co_await service.parse_pool->run(0, std::move(work), [](const std::function<void()>&) {});
}

void check_model(const Service& service, const GenerationParams& params) {
  if (params.model) check_model(service, *params.model);
}

void check_model(const Service& service, const std::string& name) {
  const std::vector<std::string>& aliases = service.options.aliases;
  const auto is_known = [&](const std::string& known) {
    return known == service.options.model_id ||
           std::find(aliases.begin(), aliases.end(), known) != aliases.end();
  };
  if (is_known(name) || is_known(without_tag(name))) return;
  HttpError error(404, "The model `{}` does not exist. This server has `{}`.", name,
                  service.options.model_id);
  error.param = "model";
  error.code = "model_not_found";
  throw error;
}

void limit_output(const Service& service, GenerationParams& params) {
  const int most = service.options.max_output_tokens;
  if (most == 0 || (params.max_tokens && *params.max_tokens <= most)) return;
  if (params.max_tokens) params.ignored.add("max_tokens", fmt::format("{}", most));
  params.max_tokens = most;
}

namespace {

// The time limit of a request.
class TimeLimit {
 public:
  explicit TimeLimit(const ServerOptions& options) : options_(options), start_(options.now()) {}
  // Returns `patience`, or the time left if that is shorter; nullopt when the limit has passed.
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

// While this lives, a disconnect of the client abandons `generation`. Must be destroyed before it.
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

ReplyHead new_reply(const Service& service, std::string_view id_prefix) {
  return {std::string(id_prefix) + random_id(), std::time(nullptr), service.options.model_id,
          service.fingerprint};
}

asio::awaitable<void> reply_json(Exchange& exchange, int status, const Json& json) {
  return exchange.reply(status, kJsonType, print(json) + "\n");
}

namespace {

// Returns the cache salt of a request that shares nothing with other owners. The length separates the owner
// from the request's own salt.
std::string salt_of(const std::string& owner, const std::string& said) {
  return fmt::format("{}:{}{}", owner.size(), owner, said);
}

// Ends the answers still running after the request timeout. Returns what a stream must send. Throws HttpError
// (504) if the request has no tokens yet.
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

}  // namespace

asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<GenerationRequest> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener) {
  RequestRecord& record = exchange.record();
  record.model = params.model.value_or(service.options.model_id);
  for (const GenerationRequest& prompt : prompts)
    record.num_prompt_tokens += static_cast<int>(prompt.prompt.size());
  if (service.options.isolate_keys)
    for (GenerationRequest& prompt : prompts)
      prompt.cache_salt = salt_of(record.key_owner, prompt.cache_salt);
  record.finish_reason = name(Outcome::kError);  // unless it ends otherwise
  Generation running(*service.gate, std::move(prompts), params.num_choices);
  const DisconnectGuard guard(exchange, running);
  const auto num_choices_each = static_cast<size_t>(params.num_choices);
  const TimeLimit limit(service.options);
  TokenCounts counts;
  std::vector<bool> has_begun(running.num_choices());
  for (size_t num_open = running.num_choices(); num_open > 0;) {
    const auto patience = limit.wait_at_most(service.options.keep_alive);
    if (!patience) {
      std::string events = end_late(running, listener, exchange, counts.num_output > 0);
      record.finish_reason = name(Outcome::kLength);
      if (params.stream && !events.empty()) co_await exchange.write_events(std::move(events));
      break;
    }
    std::optional<Generation::ChoiceEvent> next = co_await running.next(*patience);
    if (running.is_abandoned()) {
      record.finish_reason = name(Outcome::kAbort);
      co_return std::nullopt;
    }
    if (!next) {
      if (*patience < service.options.keep_alive) continue;  // the request timeout has passed
      std::string sign = params.stream ? listener.on_silence() : "";
      if (!sign.empty()) co_await exchange.write_events(std::move(sign));
      continue;
    }
    const size_t choice = next->choice;
    std::string events;
    if (auto* token = std::get_if<TokenEvent>(&next->event)) {
      if (counts.num_output++ == 0) record.first_token_seconds = record.clock.seconds();
      if (!has_begun[choice] && choice % num_choices_each == 0) counts.num_cached += token->num_cached_tokens;
      has_begun[choice] = true;
      record.num_output_tokens = counts.num_output;
      record.num_cached_tokens = counts.num_cached;
      events = listener.on_token(choice, *token);
      if (listener.has_enough(choice)) {
        running.drop_choice(choice, Outcome::kStop);
        events += listener.on_end(choice, FinishReason::kStopString, "");
        record.finish_reason = name(Outcome::kStop);
        --num_open;
      }
    } else if (auto* finished = std::get_if<FinishedEvent>(&next->event)) {
      if (finished->reason == FinishReason::kCancelled)
        throw HttpError(503, "the server shut down before this request was complete");
      events = listener.on_end(choice, finished->reason, finished->text);
      record.finish_reason = name(outcome_of(finished->reason));
      --num_open;
    } else {
      const auto& failed = std::get<FailedEvent>(next->event);
      log::warn("{} failed: {}", exchange.id(), failed.message);
      HttpError error(failed.is_requests_own ? 400 : 500, "{}", failed.message);
      if (failed.is_requests_own) error.param = params.format.name();
      throw error;
    }
    if (params.stream && !events.empty()) co_await exchange.write_events(std::move(events));
  }
  co_return counts;
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
