// POST /v1/chat/completions
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "server/api/chat_request.h"
#include "server/endpoints/endpoints.h"

namespace nibble::server {
namespace {

// Collects the answers of all choices and makes the events of a stream. A stream's first event has only the role; it is sent
// with the first token, so that a client's time to first token measures the model.
class ChatChoices : public ChoiceListener {
 public:
  ChatChoices(const ReplyHead& head, const Tokenizer& tokenizer, const ChatRequest& request)
      : head_(head),
        tokenizer_(tokenizer),
        is_stream_(request.params.stream),
        with_logprobs_(request.params.sample.num_logprobs >= 0) {
    for (int i = 0; i < request.params.num_choices; ++i)
      choices_.push_back({ChatAnswer(tokenizer, request.chat.tools, request.params.stop), "", false});
  }

  std::string on_token(size_t choice, TokenEvent& event) override {
    return events(choice, choices_[choice].answer.push(event.token));
  }
  bool has_enough(size_t choice) const override { return choices_[choice].answer.has_stopped(); }
  std::string on_end(size_t choice, FinishReason reason, const std::string&) override {
    Choice& ended = choices_[choice];
    std::string last = events(choice, ended.answer.finish());
    if (ended.answer.has_stopped()) reason = FinishReason::kStopString;
    ended.finish_reason = finish_reason(reason, !ended.answer.calls().empty());
    if (is_stream_)
      last += sse_event(chat_chunk(head_, choice, Json::object(), nullptr, ended.finish_reason));
    return last;
  }

  Json to_list() const {
    Json list = Json::array();
    for (const Choice& choice : choices_) {
      const Json logprobs =
          with_logprobs_ ? chat_logprobs(choice.answer.content_tokens(), tokenizer_) : Json(nullptr);
      list.push_back(chat_choice(list.size(), choice.answer, choice.finish_reason, logprobs));
    }
    return list;
  }
  int num_reasoning_tokens() const {
    return std::accumulate(choices_.begin(), choices_.end(), 0, [](int sum, const Choice& choice) {
      return sum + choice.answer.num_reasoning_tokens();
    });
  }

 private:
  struct Choice {
    ChatAnswer answer;
    std::string_view finish_reason;
    bool has_begun;
  };

  std::string events(size_t choice, const std::vector<AnswerDelta>& deltas) {
    std::string out;
    if (!is_stream_) return out;
    if (!choices_[choice].has_begun)
      out += sse_event(
          chat_chunk(head_, choice, {{"role", "assistant"}, {"content", ""}}, nullptr, std::nullopt));
    choices_[choice].has_begun = true;
    for (const AnswerDelta& delta : deltas) {
      Json logprobs;
      if (with_logprobs_ && !delta.tokens.empty()) logprobs = chat_logprobs(delta.tokens, tokenizer_);
      out += sse_event(chat_chunk(head_, choice, to_json(delta), logprobs, std::nullopt));
    }
    return out;
  }

  const ReplyHead& head_;
  const Tokenizer& tokenizer_;
  bool is_stream_, with_logprobs_;
  std::vector<Choice> choices_;
};

}  // namespace

asio::awaitable<void> chat_completions(Service& service, Exchange& exchange) {
  ChatRequest request;
  std::vector<GenerationRequest> prompts;
  co_await offload_if_long(service, exchange, [&] {
    request = read_chat_request(exchange.body());
    check_model(service, request.params);
    prompts.push_back(make_generation_request(service, request.params, render(service, request.chat).tokens));
    request.chat.messages.clear();  // may hold megabytes of old reasoning, which is not in the prompt
  });
  exchange.drop_body();
  const GenerationParams& params = request.params;
  const Tokenizer& tokenizer = *service.model->tokenizer;
  Usage usage{.num_prompt_tokens = static_cast<int>(prompts.front().prompt.size())};

  const ReplyHead head = new_reply(service, "chatcmpl-");
  ChatChoices choices(head, tokenizer, request);
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), params, choices);
  if (!counts) co_return;
  usage.num_output_tokens = counts->num_output;
  usage.num_cached_tokens = counts->num_cached;
  usage.num_reasoning_tokens = choices.num_reasoning_tokens();
  if (!params.stream) {
    co_await reply_json(exchange, 200, chat_reply(head, choices.to_list(), usage));
    co_return;
  }
  co_await end_stream(exchange, params, usage_chunk(head, "chat.completion.chunk", usage));
}

}  // namespace nibble::server
