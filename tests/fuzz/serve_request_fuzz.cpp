// Reads any bytes as the body of each kind of request. Accepted values must be within the bounds that the
// engine requires.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/text/json.h"
#include "server/api/anthropic_request.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/ollama_request.h"
#include "server/api/response_input.h"
#include "server/api/response_items.h"
#include "server/api/response_request.h"
#include "server/api/tokenize_request.h"
#include "server/http/url.h"
#include "tests/server/tiny.h"

namespace {

using namespace nibble;
using namespace nibble::server;

constexpr size_t kMaxSize{512};  // longer texts take longer and reach no new code

void check(const GenerationParams& params) {
  const SampleParams& sample = params.sample;
  NIBBLE_CHECK(sample.temperature >= 0 && std::isfinite(sample.temperature));
  NIBBLE_CHECK(sample.top_k >= 0 && sample.top_p > 0 && sample.top_p <= 1);
  NIBBLE_CHECK(sample.min_p >= 0 && sample.min_p <= 1 && sample.repetition_penalty > 0);
  NIBBLE_CHECK(sample.num_logprobs >= -1 && sample.num_logprobs <= kMaxLogprobs);
  NIBBLE_CHECK(!params.max_tokens || *params.max_tokens >= 0);
  NIBBLE_CHECK(params.prompt_logprobs >= -1 && params.prompt_logprobs <= kMaxLogprobs);
  NIBBLE_CHECK(params.num_choices >= 1 && params.num_choices <= kMaxChoices);
  NIBBLE_CHECK(params.stop.strings.size() <= kMaxStopStrings && params.stop.tokens.size() <= kMaxStopTokens);
  for (const std::string& stop : params.stop.strings) NIBBLE_CHECK(!stop.empty());
  for (const std::string& word : params.bad_words) NIBBLE_CHECK(!word.empty());
  for (const TokenId token : params.stop.tokens) NIBBLE_CHECK(token >= 0);
  NIBBLE_CHECK(params.stop.min_tokens >= 0 && params.bad_words.size() <= kMaxBadWords);
  NIBBLE_CHECK(!params.allowed_tokens || !params.allowed_tokens->empty());
  // This text becomes a line of the response header.
  for (const char letter : params.ignored.text()) NIBBLE_CHECK(letter >= ' ' && letter <= '~');
}

template <typename Read>
void try_reading(Read read) {
  try {
    read();
  } catch (const InputError& error) {
    NIBBLE_CHECK(error.what()[0] != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxSize) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  NIBBLE_CHECK(url_decoded(body).size() <= size);
  for (const bool is_whole : {false, true})
    NIBBLE_CHECK(input_of(std::string(body), is_whole).size() <= size);
  query_value(body, "limit");
  match_path("/v1/responses/{id}/cancel", body);
  try_reading([&] {
    const ChatRequest request = read_chat_request(body);
    check(request.params);
    harmony::to_conversation(request.chat);
  });
  try_reading([&] { check(read_completion_request(body).params); });
  try_reading([&] {
    const ResponseRequest request = read_response_request(body);
    check(request.params);
    harmony::to_conversation(request.chat);
    // Stored input items must have ids, and the items of a stored answer must be readable as input.
    for (const StoredItem& item : request.input_items) NIBBLE_CHECK(Json::parse(item.json).contains("id"));
    for (const OfferedTool& tool : request.offered) {
      ResponseItems items(tiny(), false, request.seals_reasoning);
      AnswerDelta call{
          .kind = AnswerDelta::Kind::kCall, .text = std::string(body), .id = "call_1", .tool = tool};
      items.push({call});
      items.finish(true);
      IgnoredFields ignored;
      read_items(harmony::Field(items.items(), "output"), ignored);
    }
  });
  try_reading([&] {
    const AnthropicRequest request = read_anthropic_request(body, true);
    check(request.chat.params);
    harmony::to_conversation(request.chat.chat);
  });
  try_reading([&] {
    const OllamaRequest request = read_ollama_chat(body);
    check(request.chat.params);
    harmony::to_conversation(request.chat.chat);
  });
  try_reading([&] { check(read_ollama_generate(body).chat.params); });
  try_reading([&] {
    IgnoredFields ignored;
    read_ollama_model(body, ignored);
  });
  try_reading([&] { read_tokenize_request(body); });
  try_reading([&] {
    for (const TokenId token : read_detokenize_request(body).tokens) NIBBLE_CHECK(token >= 0);
  });
  return 0;
}
