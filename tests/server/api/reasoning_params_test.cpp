// Tests the fields by which clients set the reasoning effort or turn reasoning off.
#include "server/api/reasoning_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/chat_request.h"
#include "server/api/ollama_request.h"
#include "server/api/response_request.h"
#include "tests/error_of.h"

namespace nibble::server {
namespace {

using harmony::ReasoningEffort;
using testing::HasSubstr;

constexpr const char* kOneMessage{R"("messages": [{"role": "user", "content": "a"}])"};

TEST(Reasoning, NoReasoningMeansLowEffortByEveryName) {
  constexpr std::pair<const char*, const char*> kWishes[] = {
      {R"("reasoning_effort": "none")", "reasoning_effort (low)"},
      {R"("reasoning_effort": "minimal")", "reasoning_effort (low)"},
      {R"("reasoning": {"effort": "none"})", "reasoning.effort (low)"},
      {R"("reasoning": {"enabled": false})", "reasoning.enabled (low)"},
      {R"("chat_template_kwargs": {"enable_thinking": false})", "chat_template_kwargs.enable_thinking (low)"},
      {R"("chat_template_kwargs": {"thinking": false})", "chat_template_kwargs.thinking (low)"},
      {R"("chat_template_kwargs": {"reasoning_effort": "none"})",
       "chat_template_kwargs.reasoning_effort (low)"},
      {R"("enable_thinking": false)", "enable_thinking (low)"},
      {R"("enable_thinking": false, "reasoning_effort": "high")", "enable_thinking (low)"},
      {R"("think": false)", "think (low)"},
      {R"("think": "none")", "think (low)"},
      {R"("thinking": {"type": "disabled"})", "thinking (low)"},
      {R"("thinking": false)", "thinking (low)"},
  };
  for (const auto& [wish, told] : kWishes) {
    const ChatRequest chat = read_chat_request("{" + std::string(kOneMessage) + ", " + wish + "}");
    EXPECT_EQ(chat.chat.reasoning_effort, ReasoningEffort::kLow) << wish;
    EXPECT_EQ(chat.params.ignored.text(), told) << wish;
    const ResponseRequest response = read_response_request(R"({"input": "a", )" + std::string(wish) + "}");
    EXPECT_EQ(response.chat.reasoning_effort, ReasoningEffort::kLow) << wish;
    EXPECT_EQ(response.params.ignored.text(), told) << wish;
  }
  const AnthropicRequest message = read_anthropic_request(
      R"({"max_tokens": 9, "thinking": {"type": "disabled"}, )" + std::string(kOneMessage) + "}", true);
  EXPECT_EQ(message.chat.chat.reasoning_effort, ReasoningEffort::kLow);
  EXPECT_EQ(message.chat.params.ignored.text(), "thinking (low)");
  const OllamaRequest ollama = read_ollama_chat(R"({"think": false, )" + std::string(kOneMessage) + "}");
  EXPECT_EQ(ollama.chat.chat.reasoning_effort, ReasoningEffort::kLow);
  EXPECT_EQ(ollama.chat.params.ignored.text(), "think (low)");
}

TEST(Reasoning, ASwitchThatIsOnChangesNothing) {
  for (const char* wish :
       {R"("enable_thinking": true)", R"("think": true)", R"("reasoning": {"enabled": true})",
        R"("thinking": {"type": "enabled"})", R"("chat_template_kwargs": {"thinking": true})"}) {
    const ChatRequest chat =
        read_chat_request("{" + std::string(kOneMessage) + R"(, "reasoning_effort": "high", )" + wish + "}");
    EXPECT_EQ(chat.chat.reasoning_effort, ReasoningEffort::kHigh) << wish;
    EXPECT_EQ(chat.params.ignored.text(), "") << wish;
  }
}

TEST(Reasoning, ThinkingOfAChatMayHaveABudget) {
  const auto read = [](const std::string& more) {
    return read_chat_request("{" + std::string(kOneMessage) + ", " + more + "}").params;
  };
  EXPECT_EQ(read(R"("thinking": {"type": "enabled", "budget_tokens": 7})").max_reasoning_tokens, 7);
  EXPECT_EQ(read(R"("thinking": {"type": "adaptive", "budget_tokens": 7})").ignored.text(),
            "thinking.budget_tokens");
  EXPECT_THAT(error_of([&] { read(R"("thinking": {"type": "sometimes"})"); }),
              HasSubstr("request.thinking.type must be"));
  EXPECT_THAT(error_of([&] { read(R"("enable_thinking": "no")"); }),
              HasSubstr("request.enable_thinking must be"));
}

}  // namespace
}  // namespace nibble::server
