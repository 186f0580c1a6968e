#include "server/service/service.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <random>
#include <utility>
#include <variant>

#include "core/log.h"
#include "server/http/http_error.h"
#include "server/http/random_id.h"
#include "server/service/engine_gate.h"

namespace nibble::server {

Service::Service(const ServerOptions& given)
    : options(given),
      responses(given.max_response_bytes),
      metrics(given.model_id),
      parse_thread(std::make_unique<asio::thread_pool>(1)) {}

Service::~Service() = default;

asio::awaitable<void> offload_if_long(Service& service, const Exchange& exchange,
                                      std::function<void()> work) {
  constexpr size_t kShortBytes{16 << 10};  // bytes of a body that take some milliseconds to parse
  if (exchange.body().size() <= kShortBytes) {
    work();
    co_return;
  }
  co_await asio::co_spawn(
      *service.parse_thread,
      [&work]() -> asio::awaitable<void> {
        work();
        co_return;
      },
      asio::use_awaitable);
}

void check_model(const Service& service, const GenerationParams& params) {
  if (!params.model || *params.model == service.options.model_id) return;
  HttpError error(404, "The model `{}` does not exist. This server has `{}`.", *params.model,
                  service.options.model_id);
  error.param = "model";
  error.code = "model_not_found";
  throw error;
}

GenerationRequest make_generation_request(const Service& service, const GenerationParams& params,
                                          std::vector<TokenId> prompt) {
  const ServedModel& model = *service.model;
  const auto refuse = [](HttpError error, const char* param, const char* code) {
    error.param = param;
    error.code = code;
    throw error;
  };
  if (prompt.empty()) refuse(HttpError(400, "prompt is empty: it needs at least one token"), "prompt", "");
  if (prompt.size() >= static_cast<size_t>(model.max_context))
    refuse(
        HttpError(400,
                  "This model's maximum context length is {} tokens. However, you requested a prompt of {} "
                  "tokens, which leaves no room for an answer. Shorten it.",
                  model.max_context, prompt.size()),
        "prompt", "context_length_exceeded");
  for (const TokenId token : prompt)
    if (token >= model.vocab)
      refuse(HttpError(400, "prompt has token {}, and the vocabulary 0 to {}", token, model.vocab - 1),
             "prompt", "");
  for (const auto& [token, bias] : params.sample.logit_bias)
    if (token >= model.vocab)
      refuse(
          HttpError(400, "logit_bias names token {}, and the vocabulary has 0 to {}", token, model.vocab - 1),
          "logit_bias", "");

  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sample = params.sample;
  if (!params.has_seed) {
    std::random_device device;
    request.sample.seed = uint64_t{device()} << 32 | device();
  }
  request.stop.max_tokens = params.max_tokens.value_or(0);
  if (!params.ignore_eos) request.stop.tokens = model.stop_tokens;
  return request;
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

harmony::Rendered render(const Service& service, harmony::Chat chat) {
  chat.date = harmony::today();
  return harmony::render(harmony::to_conversation(chat), *service.model->tokenizer, {});
}

ReplyHead new_reply(const Service& service, std::string_view id_prefix) {
  return {std::string(id_prefix) + random_id(), std::time(nullptr), service.options.model_id};
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
      if (params.stream) co_await exchange.write_events(std::string(kSseKeepAlive));
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
      const std::string& message = std::get<FailedEvent>(next->event).message;
      log::warn("{} failed: {}", exchange.id(), message);
      throw HttpError(500, "{}", message);
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
