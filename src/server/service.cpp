#include "server/service.h"

#include <ctime>
#include <random>
#include <utility>
#include <variant>

namespace nibble::server {
namespace {

constexpr std::chrono::seconds kKeepAlive{
    15};  // a stream without news says so this often: proxies cut silent ones

}  // namespace

void check_model(const Service& service, const GenerationParams& params) {
  if (!params.model || *params.model == service.model->id) return;
  ApiError error(404, "The model `{}` does not exist. This server has `{}`.", *params.model,
                 service.model->id);
  error.param = "model";
  error.code = "model_not_found";
  throw error;
}

Request make_request(const Service& service, const GenerationParams& params, std::vector<TokenId> prompt) {
  const ServedModel& model = *service.model;
  const auto refuse = [](ApiError error, const char* param, const char* code) {
    error.param = param;
    error.code = code;
    throw error;
  };
  if (prompt.empty()) refuse(ApiError(400, "prompt is empty: it needs at least one token"), "prompt", "");
  if (prompt.size() >= static_cast<size_t>(model.max_context))
    refuse(ApiError(400,
                    "This model's maximum context length is {} tokens. However, you requested a prompt of {} "
                    "tokens, which leaves no room for an answer. Shorten it.",
                    model.max_context, prompt.size()),
           "prompt", "context_length_exceeded");
  for (const TokenId token : prompt)
    if (token >= model.vocab)
      refuse(ApiError(400, "prompt has token {}, and the vocabulary 0 to {}", token, model.vocab - 1),
             "prompt", "");
  for (const auto& [token, bias] : params.sample.logit_bias)
    if (token >= model.vocab)
      refuse(
          ApiError(400, "logit_bias names token {}, and the vocabulary has 0 to {}", token, model.vocab - 1),
          "logit_bias", "");

  Request request;
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

ReplyHead new_reply(const Service& service, std::string_view id_prefix) {
  return {std::string(id_prefix) + random_id(), std::time(nullptr), service.model->id};
}

asio::awaitable<std::optional<Generated>> generate(Service& service, Exchange& exchange, Request request,
                                                   bool is_stream,
                                                   std::function<Heard(TokenEvent&)> on_token) {
  EngineRequest running(*service.gate, std::move(request));
  exchange.on_disconnect([&running] { running.abandon(); });
  Generated generated;
  for (;;) {
    std::optional<Event> event = co_await running.next(kKeepAlive);
    if (running.is_abandoned()) break;
    if (!event) {
      if (is_stream) co_await exchange.write_events(std::string(kSseKeepAlive));
      continue;
    }
    if (auto* token = std::get_if<TokenEvent>(&*event)) {
      ++generated.num_output_tokens;
      Heard heard = on_token(*token);
      if (is_stream && !heard.events.empty()) co_await exchange.write_events(std::move(heard.events));
      if (!heard.is_enough) continue;
      generated.reason = FinishReason::kStopString;
      exchange.on_disconnect(nullptr);
      co_return generated;
    }
    exchange.on_disconnect(nullptr);
    if (auto* failed = std::get_if<FailedEvent>(&*event)) throw ApiError(500, "{}", failed->message);
    auto& finished = std::get<FinishedEvent>(*event);
    if (finished.reason == FinishReason::kCancelled)
      throw ApiError(503, "the server is shutting down, and had no more time for this request");
    generated.reason = finished.reason;
    generated.text = std::move(finished.text);
    co_return generated;
  }
  co_return std::nullopt;
}

}  // namespace nibble::server
