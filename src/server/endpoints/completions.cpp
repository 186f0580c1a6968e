// POST /v1/completions: the model continues texts. Control tokens in them are recognised, since here the caller writes the
// chat template.
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/completion_request.h"
#include "server/endpoints/endpoints.h"
#include "server/http/http_error.h"
#include "text/utf8_stream.h"

namespace nibble::server {
namespace {

std::vector<TokenId> tokens_of(const Prompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt))
    return tokenizer.encode(*text, SpecialTokens::kRecognise);
  return std::get<std::vector<TokenId>>(prompt);
}

std::string text_of(const Prompt& prompt, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  Utf8Stream utf8;
  std::string text = utf8.push(tokenizer.decode(std::get<std::vector<TokenId>>(prompt)));
  return text += utf8.finish();
}

// Collects the completions of all choices and makes the chunks of a stream.
class CompletionChoices : public ChoiceListener {
 public:
  CompletionChoices(const ReplyHead& head, const Tokenizer& tokenizer, const CompletionRequest& request)
      : head_(head),
        tokenizer_(tokenizer),
        is_stream_(request.params.stream),
        with_logprobs_(request.params.sample.num_logprobs >= 0) {
    for (const Prompt& prompt : request.prompts) {
      const std::string echo = request.echo ? text_of(prompt, tokenizer) : "";
      for (int i = 0; i < request.params.num_choices; ++i) choices_.push_back({echo});
    }
  }

  std::string on_token(size_t choice, TokenEvent& event) override {
    Choice& one = choices_[choice];
    one.unsent_text += event.text;
    if (with_logprobs_ && !tokenizer_.is_special(event.token.token))
      one.unsent_tokens.push_back(std::move(event.token));
    return is_stream_ && !one.unsent_text.empty() ? chunk(choice, std::nullopt) : "";
  }
  bool has_enough(size_t) const override { return false; }  // the engine checks the stop strings
  std::string on_end(size_t choice, FinishReason reason, const std::string& text) override {
    Choice& one = choices_[choice];
    one.unsent_text += text;
    one.finish_reason = finish_reason(reason, false);
    return is_stream_ ? chunk(choice, one.finish_reason) : "";
  }

  Json to_list() {
    Json list = Json::array();
    for (size_t choice = 0; choice < choices_.size(); ++choice)
      list.push_back(take_unsent(choice, choices_[choice].finish_reason));
    return list;
  }

 private:
  struct Choice {
    std::string unsent_text;
    std::vector<SampledToken> unsent_tokens{};
    int64_t num_sent_characters{0};
    std::string_view finish_reason{};
  };

  // The text and tokens that were not yet sent.
  Json take_unsent(size_t choice, std::optional<std::string_view> reason) {
    Choice& one = choices_[choice];
    Json logprobs;
    if (with_logprobs_ && (!is_stream_ || !one.unsent_tokens.empty()))
      logprobs = completion_logprobs(one.unsent_tokens, tokenizer_, one.num_sent_characters);
    Json json = completion_choice(choice, one.unsent_text, logprobs, reason);
    one.num_sent_characters += count_characters(one.unsent_text);
    one.unsent_text.clear();
    one.unsent_tokens.clear();
    return json;
  }
  std::string chunk(size_t choice, std::optional<std::string_view> reason) {
    return sse_event(completion_reply(head_, Json::array({take_unsent(choice, reason)})));
  }

  const ReplyHead& head_;
  const Tokenizer& tokenizer_;
  bool is_stream_, with_logprobs_;
  std::vector<Choice> choices_;
};

// Throws HttpError if the prompts that all choices echo exceed the size limit of a body: else a request of some KB could make
// an answer of many MB.
void check_echo(const CompletionRequest& request, const Tokenizer& tokenizer, uint64_t max_bytes) {
  if (!request.echo) return;
  uint64_t num_bytes = 0;
  for (const Prompt& prompt : request.prompts)
    num_bytes += text_of(prompt, tokenizer).size() * static_cast<uint64_t>(request.params.num_choices);
  if (num_bytes <= max_bytes) return;
  HttpError error(
      400, "echo: the choices would repeat {} bytes of prompts, at most {} are accepted: ask for fewer",
      num_bytes, max_bytes);
  error.param = "echo";
  throw error;
}

}  // namespace

asio::awaitable<void> completions(Service& service, Exchange& exchange) {
  const Tokenizer& tokenizer = *service.model->tokenizer;
  CompletionRequest request;
  Usage usage;
  std::vector<GenerationRequest> prompts;
  co_await offload_if_long(service, exchange, [&] {
    request = read_completion_request(exchange.body());
    check_model(service, request.params);
    for (const Prompt& prompt : request.prompts) {
      prompts.push_back(make_generation_request(service, request.params, tokens_of(prompt, tokenizer)));
      prompts.back().stop.strings = request.params.stop;
      usage.num_prompt_tokens += static_cast<int>(prompts.back().prompt.size());
    }
    check_echo(request, tokenizer, service.options.limits.max_body_bytes);  // after the prompts were checked
  });
  exchange.drop_body();
  const GenerationParams& params = request.params;

  const ReplyHead head = new_reply(service, "cmpl-");
  CompletionChoices choices(head, tokenizer, request);
  const std::optional<TokenCounts> counts =
      co_await generate(service, exchange, std::move(prompts), params, choices);
  if (!counts) co_return;
  usage.num_output_tokens = counts->num_output;
  usage.num_cached_tokens = counts->num_cached;
  if (!params.stream) {
    Json reply = completion_reply(head, choices.to_list());
    reply["usage"] = to_json(usage);
    co_await reply_json(exchange, 200, reply);
    co_return;
  }
  co_await end_stream(exchange, params, usage_chunk(head, "text_completion", usage));
}

}  // namespace nibble::server
