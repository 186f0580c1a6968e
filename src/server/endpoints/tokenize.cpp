// POST /tokenize and /detokenize, GET /tokenizer_info, with the field names of llama-server and vLLM.

#include "core/text/json.h"
#include "server/api/tokenize_request.h"
#include "server/endpoints/endpoints.h"
#include "server/service/prompt.h"
#include "text/utf8_stream.h"

namespace nibble::server {

asio::awaitable<void> tokenize(Service& service, Exchange& exchange) {
  std::string answer;
  IgnoredFields ignored;
  co_await offload_if_long(service, exchange, [&] {
    const TokenizeRequest request = read_tokenize_request(exchange.body(), service.options.defaults);
    if (request.model) check_model(service, *request.model);
    ignored = request.ignored;
    const Tokenizer& tokenizer = *service.model->tokenizer;
    const std::vector<TokenId> tokens =
        request.chat ? chat_prompt(service, *request.chat).tokens
                     : tokenizer.encode(request.text, request.parse_special ? SpecialTokens::kRecognise
                                                                            : SpecialTokens::kOrdinary);
    Json json{{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", service.model->max_context}};
    if (request.with_texts) {
      json["token_strs"] = Json::array();
      for (const TokenId token : tokens) json["token_strs"].push_back(token_text(token, tokenizer));
    }
    answer = print(json) + "\n";
  });
  note_ignored(service, exchange, ignored);
  co_await exchange.reply(200, kJsonType, std::move(answer));
}

// The client lm-eval requests this path before /tokenize and /detokenize.
asio::awaitable<void> tokenizer_info(Service& service, Exchange& exchange) {
  const ServedModel& model = *service.model;
  Json json{{"tokenizer_class", "nibble"}, {"bos_token", nullptr}, {"eos_token", nullptr}};
  if (!model.stop_tokens.empty()) json["eos_token"] = token_text(model.stop_tokens.front(), *model.tokenizer);
  json["pad_token"] = json["eos_token"];
  json["model_max_length"] = model.max_context;
  return reply_json(exchange, 200, json);
}

asio::awaitable<void> detokenize(Service& service, Exchange& exchange) {
  std::string answer;
  IgnoredFields ignored;
  co_await offload_if_long(service, exchange, [&] {
    const DetokenizeRequest request = read_detokenize_request(exchange.body());
    if (request.model) check_model(service, *request.model);
    ignored = request.ignored;
    Utf8Stream utf8;
    std::string text = utf8.push(service.model->tokenizer->decode(request.tokens));
    text += utf8.finish();
    answer = print({{"content", text}, {"prompt", text}}) + "\n";
  });
  note_ignored(service, exchange, ignored);
  co_await exchange.reply(200, kJsonType, std::move(answer));
}

}  // namespace nibble::server
