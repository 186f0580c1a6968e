// POST /api/chat and /api/generate: Ollama's API. A stream is lines of JSON; the last line has the timings.
#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "core/system/clock.h"
#include "core/text/json.h"
#include "server/api/ollama_request.h"
#include "server/api/stream_pace.h"
#include "server/endpoints/endpoints.h"
#include "server/service/constraint.h"
#include "server/service/prompt.h"

namespace nibble::server {
namespace {

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", std::chrono::time_point_cast<std::chrono::microseconds>(
                                                  std::chrono::system_clock::now()));
}

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

// Returns calls with arguments as an object. Invalid JSON becomes the value of a member "arguments".
Json calls_json(const ChatAnswer& answer) {
  Json calls = Json::array();
  for (const ChatAnswer::Call& call : answer.calls()) {
    Json arguments = Json::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
    if (!arguments.is_object()) arguments = {{"arguments", call.arguments}};
    calls.push_back(
        {{"id", call.id},
         {"function", {{"index", calls.size()}, {"name", call.tool.name}, {"arguments", arguments}}}});
  }
  return calls;
}

class OllamaAnswer : public ChoiceListener {
 public:
  OllamaAnswer(const ReplyHead& head, const Tokenizer& tokenizer, const OllamaRequest& request, bool is_chat,
               int num_prompt_tokens)
      : head_(head),
        tokenizer_(tokenizer),
        answer_(tokenizer, request.chat.offered, request.chat.params.stop, {},
                request.chat.params.stream_interval),
        is_chat_(is_chat),
        is_raw_(request.is_raw),
        is_stream_(request.chat.params.stream),
        shows_thinking_(request.chat.includes_reasoning),
        with_logprobs_(request.chat.params.sample.num_logprobs >= 0),
        num_prompt_tokens_(num_prompt_tokens),
        raw_pace_(request.chat.params.stream_interval) {}

  std::string on_token(size_t, TokenEvent& event) override {
    if (num_tokens_++ == 0) first_token_seconds_ = event.run_seconds;
    last_token_seconds_ = event.run_seconds;
    if (!is_raw_) return lines(answer_.push(event.token));
    raw_text_ += event.text;
    raw_pace_.add_token();
    if (!is_stream_ || raw_text_.size() == num_sent_bytes_ || !raw_pace_.is_due()) return "";
    return print(line(take_raw_text(), "")) + "\n";
  }
  bool has_enough(size_t) const override { return answer_.has_stopped(); }
  std::string on_end(size_t, FinishReason reason, const std::string& text) override {
    std::string out = is_raw_ ? "" : lines(answer_.finish());
    raw_text_ += text;
    const bool is_cut = reason == FinishReason::kMaxTokens || reason == FinishReason::kContextFull;
    last_ = is_stream_ ? line(is_raw_ ? take_raw_text() : "", "")
                       : line(is_raw_ ? raw_text_ : answer_.content(), answer_.reasoning());
    if (is_chat_ && !answer_.calls().empty()) {
      Json calls = calls_json(answer_);
      if (!is_stream_) {
        last_["message"]["tool_calls"] = std::move(calls);
      } else {  // a line of their own, as in Ollama: clients may read only the counters of the last line
        Json called = line("", "");
        called["message"]["tool_calls"] = std::move(calls);
        out += print(called) + "\n";
      }
    }
    if (with_logprobs_ && !is_stream_ && !is_raw_)
      last_["logprobs"] = chat_logprobs(answer_.content_tokens(), tokenizer_)["content"];
    last_["done"] = true;
    last_["done_reason"] = is_cut && !answer_.has_stopped() ? "length" : "stop";
    last_["total_duration"] = nanoseconds(clock_.seconds());
    last_["load_duration"] = 0;
    last_["prompt_eval_count"] = num_prompt_tokens_;
    last_["prompt_eval_duration"] = nanoseconds(first_token_seconds_);
    last_["eval_count"] = num_tokens_;
    // Clients divide by it. If one step made all tokens, its time stands for theirs.
    const double seconds = last_token_seconds_ - first_token_seconds_;
    last_["eval_duration"] = std::max<int64_t>(1, nanoseconds(seconds > 0 ? seconds : first_token_seconds_));
    return is_stream_ ? out + print(last_) + "\n" : "";
  }
  std::string on_silence() override { return print(line("", "")) + "\n"; }  // no text: clients append it
  const Json& last() const { return last_; }

 private:
  Json line(const std::string& text, const std::string& thinking) const {
    Json json{{"model", head_.model}, {"created_at", now()}};
    Json said = Json::object();
    if (is_chat_) said["role"] = "assistant";
    said[is_chat_ ? "content" : "response"] = text;
    if (!thinking.empty() && shows_thinking_) said["thinking"] = thinking;
    if (is_chat_)
      json["message"] = std::move(said);
    else
      json.update(said);
    json["done"] = false;
    return json;
  }
  std::string take_raw_text() {
    raw_pace_.count_event();
    return raw_text_.substr(std::exchange(num_sent_bytes_, raw_text_.size()));
  }
  std::string lines(const std::vector<AnswerDelta>& deltas) const {
    std::string out;
    if (!is_stream_) return out;
    for (const AnswerDelta& delta : deltas) {
      const bool is_thinking = delta.kind == AnswerDelta::Kind::kReasoning;
      if (delta.kind == AnswerDelta::Kind::kCall || (is_thinking && !shows_thinking_)) continue;
      Json json = is_thinking ? line("", delta.paragraph()) : line(delta.paragraph(), "");
      if (with_logprobs_ && !delta.tokens.empty())
        json["logprobs"] = chat_logprobs(delta.tokens, tokenizer_)["content"];
      out += print(json) + "\n";
    }
    return out;
  }

  const ReplyHead& head_;
  const Tokenizer& tokenizer_;
  ChatAnswer answer_;
  bool is_chat_, is_raw_, is_stream_, shows_thinking_, with_logprobs_;
  int num_prompt_tokens_, num_tokens_{0};
  StreamPace raw_pace_;
  std::string raw_text_;
  size_t num_sent_bytes_{0};  // bytes of raw_text_ that were sent
  Json last_;
  Stopwatch clock_;
  double first_token_seconds_{0}, last_token_seconds_{0};  // from the first step, without the queue
};

asio::awaitable<void> answer(Service& service, Exchange& exchange, bool is_chat) {
  OllamaRequest request;
  ChatPrompt prompt;
  std::vector<GenerationRequest> prompts;
  co_await tokenise(service, exchange, [&] {
    request = is_chat ? read_ollama_chat(exchange.body(), service.options.defaults)
                      : read_ollama_generate(exchange.body(), service.options.defaults);
    check_model(service, request.chat.params);
    apply_options(service, request.chat.params);
    if (request.only_loads) return;
    const Tokenizer& tokenizer = *service.model->tokenizer;
    if (request.is_raw)
      prompt.tokens = tokenizer.encode(request.prompt, SpecialTokens::kRecognise);
    else
      prompt = chat_prompt(service, request.chat);
    prompts.push_back(make_generation_request(service, request.chat.params, std::move(prompt.tokens)));
    if (request.is_raw) prompts.back().stop.strings = request.chat.params.stop.strings;
    request.chat.chat.messages.clear();
  });
  exchange.drop_body();
  if (request.is_raw || request.only_loads)
    co_await constrain_text(service, request.chat.params, prompts);
  else
    co_await constrain_chat(service, request.chat.params, request.chat.offered, prompt, prompts);
  note_ignored(service, exchange, request.chat.params.ignored);
  const ReplyHead head = new_reply(service, "", request.chat.params);
  if (request.only_loads) {
    Json loaded{{"model", head.model}, {"created_at", now()}, {"done", true}, {"done_reason", "load"}};
    if (is_chat)
      loaded["message"] = {{"role", "assistant"}, {"content", ""}};
    else
      loaded["response"] = "";
    co_await reply_json(exchange, 200, loaded);
    co_return;
  }
  exchange.set_stream_type("application/x-ndjson");
  OllamaAnswer listener(head, *service.model->tokenizer, request, is_chat,
                        static_cast<int>(prompts.front().prompt.size()));
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), request.chat.params, listener);
  if (!counts) co_return;
  if (request.chat.params.stream)
    co_await exchange.end_events(200);
  else
    co_await reply_json(exchange, 200, listener.last());
}

}  // namespace

asio::awaitable<void> ollama_chat(Service& service, Exchange& exchange) {
  return answer(service, exchange, true);
}
asio::awaitable<void> ollama_generate(Service& service, Exchange& exchange) {
  return answer(service, exchange, false);
}

}  // namespace nibble::server
