// POST /v1/chat/completions
#include <ctime>
#include <utility>

#include "harmony/render.h"
#include "server/routes.h"

namespace nibble::server {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &local)};
}

// The events of an answer, in order. The first says whose words follow; it is sent with the first token, so that who
// measures the time until then measures the model.
class ChatStream {
 public:
  ChatStream(const ReplyHead& head, const Tokenizer& tokenizer, bool with_logprobs)
      : head_(head), tokenizer_(tokenizer), with_logprobs_(with_logprobs) {}

  std::string events(const std::vector<AnswerDelta>& deltas) {
    std::string out;
    if (!has_begun_)
      out += sse_event(chat_chunk(head_, {{"role", "assistant"}, {"content", ""}}, nullptr, std::nullopt));
    has_begun_ = true;
    for (const AnswerDelta& delta : deltas) {
      Json logprobs;
      if (with_logprobs_ && !delta.tokens.empty()) logprobs = chat_logprobs(delta.tokens, tokenizer_);
      out += sse_event(chat_chunk(head_, to_json(delta), logprobs, std::nullopt));
    }
    return out;
  }

  std::string end(std::string_view reason) const {
    return sse_event(chat_chunk(head_, Json::object(), nullptr, reason));
  }

 private:
  const ReplyHead& head_;
  const Tokenizer& tokenizer_;
  bool with_logprobs_;
  bool has_begun_{false};
};

}  // namespace

asio::awaitable<void> chat_completions(Service& service, Exchange& exchange) {
  ChatRequest request = read_chat_request(exchange.body());
  const GenerationParams& params = request.params;
  check_model(service, params);
  const Tokenizer& tokenizer = *service.model->tokenizer;
  request.chat.date = today();
  std::vector<TokenId> prompt = harmony::render(harmony::to_conversation(request.chat), tokenizer, {}).tokens;
  Usage usage{static_cast<int>(prompt.size()), 0};

  const ReplyHead head = new_reply(service, "chatcmpl-");
  const bool with_logprobs = params.sample.num_logprobs >= 0;
  ChatAnswer answer(tokenizer, request.chat.tools, params.stop);
  ChatStream stream(head, tokenizer, with_logprobs);
  const std::optional<Generated> generated =
      co_await generate(service, exchange, make_request(service, params, std::move(prompt)), params.stream,
                        [&](TokenEvent& event) {
                          const std::vector<AnswerDelta> deltas = answer.push(event.token);
                          return Heard{params.stream ? stream.events(deltas) : "", answer.has_stopped()};
                        });
  if (!generated) co_return;
  usage.num_output_tokens = generated->num_output_tokens;
  const std::vector<AnswerDelta> rest = answer.finish();
  const FinishReason end = answer.has_stopped() ? FinishReason::kStopString : generated->reason;
  const std::string_view reason = finish_reason(end, !answer.calls().empty());
  if (!params.stream) {
    const Json logprobs = with_logprobs ? chat_logprobs(answer.content_tokens(), tokenizer) : Json(nullptr);
    co_await exchange.reply(200, chat_reply(head, answer, reason, logprobs, usage));
    co_return;
  }
  std::string last = stream.events(rest) + stream.end(reason);
  if (params.include_usage) last += sse_event(usage_chunk(head, "chat.completion.chunk", usage));
  last += kSseDone;
  co_await exchange.write_events(std::move(last));
  co_await exchange.end_events();
}

}  // namespace nibble::server
