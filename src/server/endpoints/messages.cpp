// POST /v1/messages and /v1/messages/count_tokens: Anthropic's Messages API.
#include <utility>
#include <vector>

#include "core/text/json.h"
#include "server/api/anthropic_answer.h"
#include "server/api/anthropic_request.h"
#include "server/endpoints/endpoints.h"
#include "server/service/constraint.h"
#include "server/service/prompt.h"

namespace nibble::server {
namespace {

std::string_view stop_reason(FinishReason reason, const ChatAnswer& answer) {
  if (answer.has_stopped()) return "stop_sequence";
  if (reason == FinishReason::kMaxTokens) return "max_tokens";
  if (reason == FinishReason::kContextFull) return "model_context_window_exceeded";
  return answer.ends_in_call() ? "tool_use" : "end_turn";
}

class MessageAnswer : public ChoiceListener {
 public:
  MessageAnswer(const ReplyHead& head, const Tokenizer& tokenizer, const AnthropicRequest& request,
                const ChatPrompt& prompt, int num_prompt_tokens)
      : answer_(tokenizer, request.chat.offered, request.chat.params.stop, prompt.begun,
                request.chat.params.stream_interval),
        message_(head, request.shows_thinking),
        usage_({.num_prompt_tokens = num_prompt_tokens}) {}

  std::string on_token(size_t, TokenEvent& event) override {
    ++usage_.num_output_tokens;
    usage_.num_cached_tokens = event.num_cached_tokens;
    std::string events = message_.has_begun() ? "" : message_.begin(usage_);
    return events + message_.push(answer_.push(event.token));
  }
  bool has_enough(size_t) const override { return answer_.has_stopped(); }
  std::string on_end(size_t, FinishReason reason, const std::string&) override {
    std::string events = message_.push(answer_.finish());
    return events + message_.end(stop_reason(reason, answer_), answer_.stopped_by(), usage_);
  }
  std::string on_silence() override {
    return message_.has_begun() ? anthropic_event({{"type", "ping"}}) : message_.begin(usage_);
  }
  const Json& json() const { return message_.json(); }

 private:
  ChatAnswer answer_;
  AnthropicMessage message_;
  Usage usage_;
};

// For a prompt that is too long, throws the error message at which Claude Code compacts its conversation.
GenerationRequest make_message_request(const Service& service, const GenerationParams& params,
                                       std::vector<TokenId> prompt) {
  try {
    return make_generation_request(service, params, std::move(prompt));
  } catch (const ContextLengthError& error) {
    throw HttpError(400, "prompt is too long: {} tokens > {} maximum", error.num_tokens, error.max_context);
  }
}

}  // namespace

asio::awaitable<void> messages(Service& service, Exchange& exchange) {
  AnthropicRequest request;
  ChatPrompt prompt;
  std::vector<GenerationRequest> prompts;
  co_await tokenise(service, exchange, [&] {
    request = read_anthropic_request(exchange.body(), /*needs_max_tokens=*/true, service.options.defaults);
    check_model(service, request.chat.params);
    apply_options(service, request.chat.params);
    prompt = chat_prompt(service, request.chat);
    prompts.push_back(make_message_request(service, request.chat.params, std::move(prompt.tokens)));
    request.chat.chat.messages.clear();
  });
  exchange.drop_body();
  exchange.add_header("request-id", exchange.id());
  co_await constrain_chat(service, request.chat.params, request.chat.offered, prompt, prompts);
  const GenerationParams& params = request.chat.params;
  note_ignored(service, exchange, params.ignored);
  const ReplyHead head = new_reply(service, "msg_", params);
  MessageAnswer answer(head, *service.model->tokenizer, request, prompt,
                       static_cast<int>(prompts.front().prompt.size()));
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), params, answer);
  if (!counts) co_return;
  if (params.stream)
    co_await exchange.end_events(200);
  else
    co_await reply_json(exchange, 200, answer.json());
}

asio::awaitable<void> count_message_tokens(Service& service, Exchange& exchange) {
  Json told;
  IgnoredFields ignored;
  co_await offload_if_long(service, exchange, [&] {
    const AnthropicRequest request =
        read_anthropic_request(exchange.body(), /*needs_max_tokens=*/false, service.options.defaults);
    check_model(service, request.chat.params);
    ignored = request.chat.params.ignored;
    told = {{"input_tokens", chat_prompt(service, request.chat).tokens.size()}};
  });
  note_ignored(service, exchange, ignored);
  co_await reply_json(exchange, 200, told);
}

}  // namespace nibble::server
