#include "server/service/service.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <random>
#include <utility>
#include <variant>

#include "core/log.h"
#include "server/api/ollama_request.h"
#include "server/http/http_error.h"
#include "server/http/random_id.h"
#include "server/service/constraint.h"
#include "server/service/engine_gate.h"

namespace nibble::server {

namespace {

// FNV-1a.
uint64_t hash(std::string_view text) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const char byte : text) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

}  // namespace

Service::Service(const ServerOptions& given)
    : options(given),
      fingerprint(fmt::format("fp_{:016x}", hash(given.version + "\n" + given.model_id))),
      responses(given.max_response_bytes),
      metrics(given.model_id),
      parse_thread(std::make_unique<asio::thread_pool>(1)) {}

Service::~Service() = default;

asio::awaitable<void> offload_if_long(Service& service, const Exchange& exchange,
                                      std::function<void()> work) {
  constexpr size_t kShortBytes{16 << 10};  // bytes of a body that take some milliseconds to parse
  return offload_if(service, exchange.body().size() > kShortBytes, std::move(work));
}

asio::awaitable<void> offload_if(Service& service, bool is_long, std::function<void()> work) {
  if (!is_long) {
    work();
    co_return;
  }
  struct Count {
    explicit Count(int& number) : number_(number) { ++number_; }
    ~Count() { --number_; }
    int& number_;
  } const count(service.num_offloaded);
  co_await asio::co_spawn(
      *service.parse_thread,
      [&work]() -> asio::awaitable<void> {
        work();
        co_return;
      },
      asio::use_awaitable);
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

namespace {

// Abandons the request when the client disconnects, for as long as this lives: the request is destroyed after it.
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
    HttpError error(400, "this server is strict, and these fields would have no effect: {}. Leave them out.",
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

asio::awaitable<std::optional<TokenCounts>> generate(Service& service, Exchange& exchange,
                                                     std::vector<GenerationRequest> prompts,
                                                     const GenerationParams& params,
                                                     ChoiceListener& listener) {
  Generation running(*service.gate, std::move(prompts), params.num_choices);
  const DisconnectGuard guard(exchange, running);
  const auto num_choices_each = static_cast<size_t>(params.num_choices);
  TokenCounts counts;
  std::vector<bool> has_begun(running.num_choices());
  for (size_t num_open = running.num_choices(); num_open > 0;) {
    std::optional<Generation::ChoiceEvent> next = co_await running.next(service.options.keep_alive);
    if (running.is_abandoned()) co_return std::nullopt;
    if (!next) {
      std::string sign = params.stream ? listener.on_silence() : "";
      if (!sign.empty()) co_await exchange.write_events(std::move(sign));
      continue;
    }
    const size_t choice = next->choice;
    std::string events;
    if (auto* token = std::get_if<TokenEvent>(&next->event)) {
      ++counts.num_output;
      if (!has_begun[choice] && choice % num_choices_each == 0) counts.num_cached += token->num_cached_tokens;
      has_begun[choice] = true;
      events = listener.on_token(choice, *token);
      if (listener.has_enough(choice)) {
        running.drop_choice(choice, true);
        events += listener.on_end(choice, FinishReason::kStopString, "");
        --num_open;
      }
    } else if (auto* finished = std::get_if<FinishedEvent>(&next->event)) {
      if (finished->reason == FinishReason::kCancelled)
        throw HttpError(503, "the server is shutting down, and had no more time for this request");
      events = listener.on_end(choice, finished->reason, finished->text);
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
  // Built outside co_await, inside which GCC 12 frees a conditional's temporaries twice.
  std::string last;
  if (params.include_usage) last += sse_event(usage);
  last += kSseDone;
  co_await exchange.write_events(std::move(last));
  co_await exchange.end_events(200);
}

}  // namespace nibble::server
