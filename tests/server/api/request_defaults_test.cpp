#include "server/api/request_defaults.h"
#include "core/text/json.h"

#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/completion_request.h"
#include "server/api/ollama_request.h"
#include "server/api/response_request.h"
#include "server/api/tokenize_request.h"

namespace nibble::server {
namespace {

using harmony::ReasoningEffort;

RequestDefaults given() {
  RequestDefaults defaults;
  defaults.sample.temperature = 0.25f;
  defaults.sample.top_k = 7;
  defaults.sample.top_p = 0.5f;
  defaults.sample.min_p = 0.125f;
  defaults.sample.presence_penalty = 0.75f;
  defaults.effort = ReasoningEffort::kHigh;
  return defaults;
}

struct Read {
  const char* api;
  GenerationParams params;
  std::optional<ReasoningEffort> effort;
};

// Sends the same question to every API. `more`: members of the request, for Ollama members of its options.
std::vector<Read> read_everywhere(const std::string& more, const std::string& effort_of_chat = "",
                                  const std::string& effort_of_responses = "",
                                  const std::string& effort_of_messages = "",
                                  const std::string& effort_of_ollama = "") {
  const std::string user = R"("messages": [{"role": "user", "content": "hi"}])", options = "{" + more + "}";
  const std::string rest = more.empty() ? "" : ", " + more;
  const RequestDefaults defaults = given();
  std::vector<Read> all;
  const ChatRequest chat = read_chat_request("{" + user + effort_of_chat + rest + "}", defaults);
  all.push_back({"chat", chat.params, chat.chat.reasoning_effort});
  const auto completion = read_completion_request(R"({"prompt": "hi")" + rest + "}", defaults);
  all.push_back({"completions", completion.params, std::nullopt});
  const auto response = read_response(
      harmony::parse_json(R"({"input": "hi")" + effort_of_responses + rest + "}", "the body"), defaults);
  all.push_back({"responses", response.params, response.chat.reasoning_effort});
  const auto message = read_anthropic_request(
      R"({"max_tokens": 5, )" + user + effort_of_messages + rest + "}", true, defaults);
  all.push_back({"messages", message.chat.params, message.chat.chat.reasoning_effort});
  const auto ollama =
      read_ollama_chat("{" + user + effort_of_ollama + R"(, "options": )" + options + "}", defaults);
  all.push_back({"Ollama's chat", ollama.chat.params, ollama.chat.chat.reasoning_effort});
  const auto generate = read_ollama_generate(
      R"({"prompt": "hi")" + effort_of_ollama + R"(, "options": )" + options + "}", defaults);
  all.push_back({"Ollama's generate", generate.chat.params, generate.chat.chat.reasoning_effort});
  const auto tokenize = read_tokenize_request("{" + user + effort_of_chat + rest + "}", defaults);
  all.push_back({"tokenize", tokenize.chat->params, tokenize.chat->chat.reasoning_effort});
  return all;
}

TEST(RequestDefaults, ARequestThatSaysNothingGetsThemInEveryApi) {
  for (const Read& read : read_everywhere("")) {
    const SampleParams& sample = read.params.sample;
    EXPECT_EQ(sample.temperature, 0.25f) << read.api;
    EXPECT_EQ(sample.top_k, 7) << read.api;
    EXPECT_EQ(sample.top_p, 0.5f) << read.api;
    EXPECT_EQ(sample.min_p, 0.125f) << read.api;
    EXPECT_EQ(sample.presence_penalty, 0.75f) << read.api;
    EXPECT_EQ(read.effort.value_or(ReasoningEffort::kHigh), ReasoningEffort::kHigh) << read.api;
    EXPECT_FALSE(read.params.has_seed) << read.api;
  }
}

TEST(RequestDefaults, ARequestOverridesThemOneByOne) {
  for (const Read& read :
       read_everywhere(R"("temperature": 1, "top_k": -1)", R"(, "reasoning_effort": "low")",
                       R"(, "reasoning": {"effort": "low"})", R"(, "output_config": {"effort": "low"})",
                       R"(, "think": "low")")) {
    EXPECT_EQ(read.params.sample.temperature, 1) << read.api;
    EXPECT_EQ(read.params.sample.top_k, 0) << read.api;
    EXPECT_EQ(read.params.sample.top_p, 0.5f) << read.api;
    EXPECT_EQ(read.effort.value_or(ReasoningEffort::kLow), ReasoningEffort::kLow) << read.api;
  }
}

TEST(RequestDefaults, NullIsNoValue) {
  for (const Read& read : read_everywhere(R"("temperature": null)"))
    EXPECT_EQ(read.params.sample.temperature, 0.25f) << read.api;
}

}  // namespace
}  // namespace nibble::server
