#include "server/api/ollama_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble::server {
namespace {

using testing::HasSubstr;

OllamaRequest read_ollama(const std::string& more) {
  return read_ollama_chat(R"({"messages": [{"role": "user", "content": "Hi"}])" +
                          (more.empty() ? "" : ", " + more) + "}");
}

TEST(OllamaRequest, OptionsArriveWhereTheyBelong) {
  const GenerationParams params =
      read_ollama(
          R"("model": "m:latest", "options": {"temperature": 0.5, "top_k": 3, "seed": 4, "stop": ["x"],
                     "num_predict": 6, "repeat_penalty": 1.5, "num_ctx": 4096}, "keep_alive": "5m")")
          .chat.params;
  EXPECT_EQ(params.model, "m");
  EXPECT_EQ(params.sample.temperature, 0.5f);
  EXPECT_EQ(params.sample.top_k, 3);
  EXPECT_EQ(params.sample.seed, 4u);
  EXPECT_EQ(params.sample.repetition_penalty, 1.5f);
  EXPECT_EQ(params.stop.strings, std::vector<std::string>{"x"});
  EXPECT_EQ(params.max_tokens, 6);
  EXPECT_TRUE(params.stream);
  EXPECT_EQ(params.ignored.text(), "options.num_ctx, keep_alive");
  EXPECT_FALSE(
      read_ollama(R"("stream": false, "options": {"num_predict": -1, "seed": -1})").chat.params.max_tokens);
  EXPECT_FALSE(read_ollama(R"("options": {"seed": -1})").chat.params.has_seed);
  for (const char* no_limit : {"-2", "0"})
    EXPECT_FALSE(
        read_ollama(R"("options": {"num_predict": )" + std::string(no_limit) + "}").chat.params.max_tokens);
}

TEST(OllamaRequest, ThinkingIsAWishOrALevel) {
  EXPECT_FALSE(read_ollama(R"("think": false)").chat.includes_reasoning);
  EXPECT_EQ(read_ollama(R"("think": false)").chat.params.ignored.text(), "think (low)");
  EXPECT_TRUE(read_ollama(R"("think": true)").chat.includes_reasoning);
  EXPECT_EQ(read_ollama(R"("think": "high")").chat.chat.reasoning_effort, harmony::ReasoningEffort::kHigh);
  EXPECT_THAT(error_of([] { read_ollama(R"("think": "huge")"); }), HasSubstr("request.think must be low"));
}

TEST(OllamaRequest, APenaltyThatCountsOnlyTheLastTokensIsRefused) {
  EXPECT_EQ(read_ollama(R"("options": {"repeat_penalty": 2, "repeat_last_n": 0})")
                .chat.params.sample.repetition_penalty,
            1);
  EXPECT_EQ(read_ollama(R"("options": {"repeat_penalty": 1, "repeat_last_n": 64})")
                .chat.params.sample.repetition_penalty,
            1);
  EXPECT_THAT(error_of([] { read_ollama(R"("options": {"repeat_penalty": 2, "repeat_last_n": 64})"); }),
              HasSubstr("request.options.repeat_last_n must be -1 or 0"));
}

TEST(OllamaRequest, AResultIsMatchedByTheNameOfItsTool) {
  const OllamaRequest request = read_ollama_chat(
      R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
                       {"role": "tool", "tool_name": "f", "content": "7"}]})");
  EXPECT_EQ(request.chat.chat.messages[0].tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(request.chat.chat.messages[1].tool_name, "f");
}

TEST(OllamaRequest, NothingToSayOnlyLoads) {
  EXPECT_TRUE(read_ollama_chat(R"({"model": "m"})").only_loads);
  EXPECT_TRUE(read_ollama_chat(R"({"messages": []})").only_loads);
  EXPECT_TRUE(read_ollama_generate("{}").only_loads);
  const OllamaRequest text = read_ollama_generate(R"({"prompt": "a", "system": "b"})");
  EXPECT_EQ(text.chat.chat.messages[0].text, "a");
  EXPECT_EQ(text.chat.chat.instructions, "b");
  EXPECT_EQ(read_ollama_generate(R"({"prompt": "a", "raw": true})").prompt, "a");
}

TEST(OllamaRequest, ARawPromptNamesTheFieldsOfChats) {
  const OllamaRequest request = read_ollama_generate(
      R"({"prompt": "a", "raw": true, "system": "b", "think": true, "logprobs": true, "options": {"seed": 1}})");
  EXPECT_TRUE(request.is_raw);
  EXPECT_EQ(request.chat.params.ignored.text(), "system, think, logprobs");
}

TEST(OllamaRequest, AModelHasAnOlderName) {
  IgnoredFields ignored;
  EXPECT_EQ(read_ollama_model(R"({"name": "tiny:latest"})", ignored), "tiny");
  EXPECT_EQ(read_ollama_model(R"({"model": "tiny:20b"})", ignored), "tiny:20b");
  EXPECT_TRUE(ignored.empty());
  EXPECT_THAT(error_of([&] { read_ollama_model("{}", ignored); }), HasSubstr("request.model is missing"));
}

}  // namespace
}  // namespace nibble::server
