// Tests how requests of Anthropic's API become chats, and how answers become its messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text/json.h"
#include "harmony/render.h"
#include "server/api/anthropic_answer.h"
#include "server/api/anthropic_request.h"
#include "tests/error_of.h"
#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

using testing::HasSubstr;

AnthropicRequest read_anthropic(const std::string& messages, const std::string& more = "") {
  return read_anthropic_request(R"({"max_tokens": 9, "messages": [)" + messages + "]" + more + "}", true);
}
// Returns the prompt after the system message.
std::string anthropic_prompt(const std::string& messages, const std::string& more = "") {
  const harmony::Chat chat = read_anthropic(messages, more).chat.chat;
  const std::string text = harmony::render(harmony::to_conversation(chat), tiny(), {}).text;
  return text.substr(text.find("<|end|>") + 7);
}

TEST(AnthropicRequest, ResultsComeBeforeTheOtherWordsOfTheirMessage) {
  EXPECT_EQ(
      anthropic_prompt(
          R"({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"},
                     {"type": "text", "text": "Look:"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
                   {"role": "user", "content": [{"type": "text", "text": "Well?"},
                     {"type": "tool_result", "tool_use_id": "1", "is_error": true, "content": "gone"}]})"),
      "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
      "<|start|>assistant<|channel|>commentary<|message|>Look:<|end|>"
      "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>{\"a\":1}<|call|>"
      "<|start|>functions.f to=assistant<|channel|>commentary<|message|>Error: gone<|end|>"
      "<|start|>user<|message|>Well?<|end|><|start|>assistant");
}

TEST(AnthropicRequest, TheLineThatChangesWithEveryRequestIsDropped) {
  EXPECT_EQ(anthropic_prompt(R"({"role": "user", "content": "Hi"})",
                             R"(, "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
                                             {"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}])"),
            "<|start|>developer<|message|># Instructions\n\nBe brief.\n\nBe kind.<|end|>"
            "<|start|>user<|message|>Hi<|end|><|start|>assistant");
}

TEST(AnthropicRequest, ASummaryOfEarlierMessagesReachesTheModel) {
  const std::string block{
      R"({"type": "compaction", "signature": "s", "encrypted_content": "e", "content": )"};
  const auto said = [&](const std::string& content) {
    return R"({"role": "assistant", "content": [)" + block + content +
           R"(}]}, {"role": "user", "content": "On."})";
  };
  EXPECT_EQ(anthropic_prompt(said("\"They met.\"")),
            "<|start|>assistant<|channel|>final<|message|>They met.<|end|>"
            "<|start|>user<|message|>On.<|end|><|start|>assistant");
  EXPECT_EQ(read_anthropic(said("\"They met.\"")).chat.params.ignored.text(), "");
  EXPECT_EQ(read_anthropic(said("null")).chat.params.ignored.text(),
            "messages[].content.compaction (left out)");
}

TEST(AnthropicRequest, WhatNeedsAStoredConversationIsRefused) {
  const std::string message{R"({"role": "user", "content": "Hi"})"};
  EXPECT_THAT(error_of([&] {
                read_anthropic(message, R"(, "thread": {"type": "continue", "previous_message_id": "m"})");
              }),
              HasSubstr("request.thread must be absent"));
  EXPECT_THAT(error_of([&] { read_anthropic(message, R"(, "compaction": {"type": "summarize"})"); }),
              HasSubstr("request.compaction must be absent"));
}

TEST(AnthropicRequest, ACallMayLackItsInput) {
  for (const char* input : {"", R"(, "input": null)", R"(, "input": {})"})
    EXPECT_THAT(
        anthropic_prompt(R"({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f")" +
                         std::string(input) + "}]}"),
        HasSubstr("<|message|>{}<|call|>"))
        << input;
}

TEST(AnthropicRequest, ParametersArriveWhereTheyBelong) {
  const AnthropicRequest request = read_anthropic(
      R"({"role": "user", "content": "Hi"})",
      R"(, "stop_sequences": ["x"], "top_k": 5, "stream": true, "thinking": {"type": "adaptive"}, "metadata": {},
         "output_config": {"effort": "max"}, "tools": [{"name": "f", "input_schema": {"properties": {"a": {}}}},
                                                       {"type": "bash_20250124", "name": "bash"}])");
  EXPECT_EQ(request.chat.params.stop.strings, std::vector<std::string>{"x"});
  EXPECT_EQ(request.chat.params.max_tokens, 9);
  EXPECT_TRUE(request.shows_thinking && request.chat.params.stream && !request.chat.continues_final);
  EXPECT_EQ(request.chat.chat.reasoning_effort, harmony::ReasoningEffort::kHigh);
  EXPECT_EQ(request.chat.offered.size(), 1u);
  EXPECT_EQ(request.chat.params.ignored.text(),
            "metadata, output_config.effort (high), tools.bash_20250124 (left out)");
  EXPECT_TRUE(read_anthropic(R"({"role": "assistant", "content": "It"})").chat.continues_final);
  EXPECT_FALSE(read_anthropic(R"({"role": "user", "content": "Hi"})").shows_thinking);
}

TEST(AnthropicRequest, ThinkingThatIsEnabledMayHaveABudget) {
  const auto read_thinking = [](const std::string& thinking) {
    return read_anthropic(R"({"role": "user", "content": "Hi"})", R"(, "thinking": )" + thinking).chat.params;
  };
  EXPECT_EQ(read_thinking(R"({"type": "enabled", "budget_tokens": 5})").max_reasoning_tokens, 5);
  EXPECT_EQ(read_thinking(R"({"type": "enabled", "budget_tokens": 5})").ignored.text(), "");
  EXPECT_EQ(read_thinking(R"({"type": "enabled"})").max_reasoning_tokens, std::nullopt);
  const GenerationParams adaptive = read_thinking(R"({"type": "adaptive", "budget_tokens": 5})");
  EXPECT_EQ(adaptive.max_reasoning_tokens, std::nullopt);
  EXPECT_EQ(adaptive.ignored.text(), "thinking.budget_tokens");
  EXPECT_THAT(error_of([&] { read_thinking(R"({"type": "enabled", "budget_tokens": -5})"); }),
              HasSubstr("request.thinking.budget_tokens must be a whole number from -1 to"));
}

TEST(AnthropicRequest, WhatCanNotBeReadIsRefused) {
  EXPECT_THAT(error_of([] { read_anthropic_request(R"({"messages": []})", true); }),
              HasSubstr("max_tokens is missing"));
  EXPECT_THAT(error_of([] { read_anthropic(""); }), HasSubstr("at least one message"));
  EXPECT_THAT(error_of([] { read_anthropic(R"({"role": "tool", "content": ""})"); }),
              HasSubstr("user, assistant or system"));
  EXPECT_THAT(error_of([] { read_anthropic(R"({"role": "user", "content": [{"type": "image"}]})"); }),
              HasSubstr("request.messages[0].content[0].type must be"));
  EXPECT_THAT(error_of([] {
                read_anthropic(R"({"role": "user", "content": ""})", R"(, "tool_choice": {"type": "any"})");
              }),
              HasSubstr("request.tool_choice must be auto or none if no tool is offered"));
}

// An answer as one message, and the types of the events that stream the same message. Consecutive events of
// one type are listed once.
struct Told {
  Json message;
  std::string types;
};
Told tell(const std::string& said, bool shows_thinking) {
  ChatAnswer answer(tiny(), {{"f"}}, {});
  AnthropicMessage message({.id = "msg_1", .created = 0, .model = "tiny"}, shows_thinking);
  std::string events = message.begin({.num_prompt_tokens = 7, .num_cached_tokens = 2});
  for (const TokenId token : tiny().encode(said, SpecialTokens::kRecognise))
    events += message.push(answer.push({.token = token}));
  events += message.push(answer.finish());
  events +=
      message.end("end_turn", "", {.num_prompt_tokens = 7, .num_output_tokens = 3, .num_cached_tokens = 2});
  Told told{message.json(), ""};
  std::string last;
  for (size_t at = events.find("event: "); at != std::string::npos; at = events.find("event: ", at + 1)) {
    const std::string type = events.substr(at + 7, events.find('\n', at) - at - 7);
    if (type != last) told.types += type + " ";
    last = type;
  }
  return told;
}

constexpr const char* kThoughtAndCall{
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
    "<|constrain|>json<|message|>{\"a\":1}<|call|>"};

TEST(AnthropicMessage, EachMessageOfTheModelIsABlock) {
  const Told told = tell(kThoughtAndCall, true);
  EXPECT_EQ(
      told.types,
      "message_start ping content_block_start content_block_delta content_block_stop content_block_start "
      "content_block_delta content_block_stop message_delta message_stop ");
  EXPECT_EQ(told.message["content"][0]["thinking"], "Hm.");
  EXPECT_EQ(told.message["content"][1]["input"], Json::parse(R"({"a": 1})"));
  EXPECT_EQ(
      told.message["usage"].dump(),
      R"({"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":3})");
}

TEST(AnthropicMessage, ThinkingIsLeftOutForWhoDoesNotAskForIt) {
  const Json content = tell(kThoughtAndCall, false).message["content"];
  ASSERT_EQ(content.size(), 1u);
  EXPECT_EQ(content[0]["type"], "tool_use");
}

TEST(AnthropicMessage, ArgumentsThatAreNoObjectArePassedOnAsText) {
  const Json content =
      tell("<|channel|>commentary to=functions.f json<|message|>{\"a<|call|>", false).message["content"];
  EXPECT_EQ(content[0]["input"]["arguments"], "{\"a");
}

}  // namespace
}  // namespace nibble::server
