#include "server/api/response_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/error_of.h"

namespace nibble::server {
namespace {

using harmony::Role;
using testing::HasSubstr;

std::vector<harmony::ChatMessage> read(const std::string& items) {
  return read_response_request(R"({"input": [)" + items + "]}").chat.messages;
}

constexpr const char* kReasoningItem{
    R"({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]})"};
constexpr const char* kSaidItem{
    R"({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look:"}]})"};
constexpr const char* kCallItem{
    R"({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})"};
constexpr const char* kOutputItem{R"({"type": "function_call_output", "call_id": "c", "output": "7"})"};

std::string joined(std::initializer_list<const char*> items) {
  std::string text;
  for (const char* item : items) text += (text.empty() ? "" : ",") + std::string(item);
  return text;
}

TEST(ResponseRequest, ATextIsTheMessageOfAUser) {
  const ResponseRequest request = read_response_request(R"({"input": "hi"})");
  ASSERT_EQ(request.chat.messages.size(), 1u);
  EXPECT_EQ(request.chat.messages[0].role, Role::kUser);
  EXPECT_EQ(request.chat.messages[0].text, "hi");
  EXPECT_TRUE(request.store);
  EXPECT_FALSE(request.params.max_tokens);
}

TEST(ResponseRequest, ThoughtsWordsAndCallsThatFollowEachOtherAreOneMessage) {
  const auto messages =
      read(joined({kReasoningItem, kReasoningItem, kSaidItem, kCallItem, kCallItem, kOutputItem}));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].reasoning, "Hm.\n\nHm.");
  EXPECT_EQ(messages[0].text, "Look:");
  EXPECT_EQ(messages[0].tool_calls.size(), 2u);
  EXPECT_EQ(messages[1].role, Role::kTool);
  EXPECT_EQ(messages[1].tool_call_id, "c");
  EXPECT_EQ(messages[1].text, "7");
}

TEST(ResponseRequest, InAnyOtherOrderTheyAreMessagesOfTheirOwn) {
  EXPECT_EQ(read(joined({kSaidItem, kReasoningItem})).size(), 2u);
  EXPECT_EQ(read(joined({kSaidItem, kSaidItem})).size(), 2u);
  EXPECT_EQ(read(joined({kCallItem, kSaidItem})).size(), 2u);
  EXPECT_EQ(read(joined({kCallItem, kOutputItem, kReasoningItem, kSaidItem})).size(), 3u);
}

TEST(ResponseRequest, ASummaryIsTakenWhereTheThoughtsAreNotThere) {
  EXPECT_EQ(read(R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "In short."}]})")[0]
                .reasoning,
            "In short.");
}

TEST(ResponseRequest, ParametersArriveWhereTheyBelong) {
  const ResponseRequest request = read_response_request(
      R"({"input": "a", "instructions": "b", "max_output_tokens": 9, "temperature": 0.5, "store": false,
          "reasoning": {"effort": "high", "summary": "auto"}, "previous_response_id": "resp_1", "top_logprobs": 2,
          "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"properties": {"x": {}}}}]})");
  EXPECT_EQ(request.chat.instructions, "b");
  EXPECT_EQ(request.params.max_tokens, 9);
  EXPECT_EQ(request.params.sample.temperature, 0.5f);
  EXPECT_EQ(request.params.sample.num_logprobs, 2);
  EXPECT_FALSE(request.store);
  EXPECT_EQ(request.chat.reasoning_effort, harmony::ReasoningEffort::kHigh);
  EXPECT_EQ(request.previous_id, "resp_1");
  ASSERT_EQ(request.chat.tools.size(), 1u);
  EXPECT_EQ(request.chat.tools[0].description, "d");
  EXPECT_THAT(error_of([] { read_response_request(R"({"input": "a", "n": 2})"); }),
              HasSubstr("request.n must be 1"));
}

}  // namespace
}  // namespace nibble::server
