#include "server/api/tokenize_request.h"

#include "core/text/json.h"
#include "core/text/remove_member.h"
#include "server/api/generation_params.h"

namespace nibble::server {

TokenizeRequest read_tokenize_request(std::string_view body, const RequestDefaults& defaults) {
  Json json = harmony::parse_json(body, "the body");
  const Field request(json, "request");
  TokenizeRequest read;
  read.with_texts = read_boolean(request, "return_token_strs");
  if (request.find("messages")) {
    remove_member(json, "return_token_strs");
    read.chat = read_chat(json, defaults);
    read.model = read.chat->params.model;
    read.ignored = read.chat->params.ignored;
    return read;
  }
  check_fields(Api::kTokenize, request, read.ignored);
  read.model = request.find_string("model");
  const auto prompt = request.find("prompt");  // vLLM's name of the text; llama-server calls it "content"
  read.text = prompt ? prompt->string() : request.need_string("content");
  if (const auto special = request.find("parse_special")) read.parse_special = special->boolean();
  return read;
}

DetokenizeRequest read_detokenize_request(std::string_view body) {
  const Json json = harmony::parse_json(body, "the body");
  const Field request(json, "request");
  constexpr std::string_view kAccepted{"a list of token ids"};
  DetokenizeRequest read;
  check_fields(Api::kDetokenize, request, read.ignored);
  read.model = request.find_string("model");
  read.tokens = read_tokens(request.need("tokens", kAccepted), kAccepted);
  return read;
}

}  // namespace nibble::server
