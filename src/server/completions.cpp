// POST /v1/completions: the model goes on with a text. Control tokens in it are recognised, as the caller writes the
// template here.
#include <utility>

#include "server/routes.h"
#include "text/utf8_stream.h"

namespace nibble::server {
namespace {

std::vector<TokenId> prompt_tokens(const CompletionRequest& request, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&request.prompt))
    return tokenizer.encode(*text, SpecialTokens::kRecognise);
  return std::get<std::vector<TokenId>>(request.prompt);
}

std::string echo_of(const CompletionRequest& request, const Tokenizer& tokenizer) {
  if (!request.echo) return {};
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return *text;
  Utf8Stream utf8;
  std::string text = utf8.push(tokenizer.decode(std::get<std::vector<TokenId>>(request.prompt)));
  return text += utf8.finish();
}

}  // namespace

asio::awaitable<void> completions(Service& service, Exchange& exchange) {
  const CompletionRequest request = read_completion_request(exchange.body());
  const GenerationParams& params = request.params;
  check_model(service, params);
  const Tokenizer& tokenizer = *service.model->tokenizer;
  Request engine_request = make_request(service, params, prompt_tokens(request, tokenizer));
  engine_request.stop.strings = params.stop;
  Usage usage{static_cast<int>(engine_request.prompt.size()), 0};

  const ReplyHead head = new_reply(service, "cmpl-");
  const bool with_logprobs = params.sample.num_logprobs >= 0;
  std::string text = echo_of(request, tokenizer);
  std::string unsent = text;
  std::vector<SampledToken> tokens, unsent_tokens;
  int64_t num_characters = 0;
  const auto logprobs_of = [&](const std::vector<SampledToken>& some) {
    if (!with_logprobs || some.empty()) return Json(nullptr);
    Json lists = completion_logprobs(some, tokenizer, num_characters);
    num_characters += count_characters(unsent);
    return lists;
  };
  const auto chunk = [&](std::optional<std::string_view> reason) {
    const Json logprobs = logprobs_of(unsent_tokens);
    std::string event = sse_event(completion_reply(head, unsent, logprobs, reason));
    unsent.clear();
    unsent_tokens.clear();
    return event;
  };
  const std::optional<Generated> generated =
      co_await generate(service, exchange, std::move(engine_request), params.stream, [&](TokenEvent& event) {
        const bool is_control = tokenizer.is_special(event.token.token);
        text += event.text;
        unsent += event.text;
        if (with_logprobs && !is_control) {
          (params.stream ? unsent_tokens : tokens).push_back(std::move(event.token));
        }
        return Heard{params.stream && !unsent.empty() ? chunk(std::nullopt) : ""};
      });
  if (!generated) co_return;
  usage.num_output_tokens = generated->num_output_tokens;
  text += generated->text;
  unsent += generated->text;
  const std::string_view reason = finish_reason(generated->reason, false);
  if (!params.stream) {
    Json reply = completion_reply(head, text,
                                  with_logprobs ? completion_logprobs(tokens, tokenizer, 0) : Json(), reason);
    reply["usage"] = to_json(usage);
    co_await exchange.reply(200, reply);
    co_return;
  }
  std::string last = chunk(reason);
  if (params.include_usage) last += sse_event(usage_chunk(head, "text_completion", usage));
  last += kSseDone;
  co_await exchange.write_events(std::move(last));
  co_await exchange.end_events();
}

}  // namespace nibble::server
