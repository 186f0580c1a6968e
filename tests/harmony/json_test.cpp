#include "harmony/json.h"

#include <gtest/gtest.h>

#include "core/errors/error.h"
#include "tests/error_of.h"
#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {
namespace {

TEST(HarmonyJson, WhatIsReadIsWrittenAgain) {
  for (const Json& line : json_lines("tests/data/harmony_render_conversations.jsonl")) {
    const Json written = to_json(conversation_from_json(line["conversation"]));
    EXPECT_EQ(to_json(conversation_from_json(written)), written);
    ASSERT_EQ(written["messages"].size(), line["conversation"]["messages"].size());
    for (size_t i = 0; i < written["messages"].size(); ++i) {
      Json expected = line["conversation"]["messages"][i];
      if (expected["content"].is_string())
        expected["content"] = {{{"type", "text"}, {"text", expected["content"]}}};
      // nlohmann::json compares members in any order.
      EXPECT_EQ(nlohmann::json(written["messages"][i]), nlohmann::json(expected));
    }
  }
}

TEST(HarmonyJson, WhatASystemMessageLeavesOutIsNotRendered) {
  const std::string text{R"({"messages": [{"role": "system", "content": [{"type": "system_content"}]}]})"};
  const Conversation bare = conversation_from_json(parse_json(text, "the conversation"));
  const SystemContent& content = bare.messages.at(0).system.value();
  EXPECT_FALSE(content.model_identity || content.knowledge_cutoff || content.reasoning_effort);
  EXPECT_TRUE(content.valid_channels.empty());
}

std::string refusal_of(const std::string& text) {
  return error_of([&] { conversation_from_json(parse_json(text, "the conversation")); });
}

std::string refusal_of_message(const std::string& message) {
  return refusal_of(R"({"messages": [)" + message + "]}");
}

TEST(HarmonyJson, EveryBadFieldIsNamedWithWhatIsAcceptedThere) {
  EXPECT_EQ(refusal_of("[]"), "conversation must be an object, not []");
  EXPECT_EQ(refusal_of("{}"), "conversation.messages is missing; it must be a list of messages");
  EXPECT_EQ(refusal_of(R"({"messages": 7})"), "conversation.messages must be a list, not 7");
  EXPECT_EQ(refusal_of(R"({"messages": [], "extra": 1})"),
            "conversation.extra is unknown; expected one of messages");
  EXPECT_EQ(refusal_of_message(R"({"content": "x"})"),
            "conversation.messages[0].role is missing; it must be a role");
  EXPECT_EQ(refusal_of_message(R"({"role": "bot", "content": "x"})"),
            "conversation.messages[0].role must be system, developer, user, assistant or tool, not \"bot\"");
  EXPECT_EQ(
      refusal_of_message(R"({"role": "user"})"),
      "conversation.messages[0].content is missing; it must be a string or a list of one content block");
  EXPECT_EQ(
      refusal_of_message(
          R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})"),
      "conversation.messages[0].content has 2 blocks, but only one is accepted; join their texts");
  EXPECT_EQ(
      refusal_of_message(R"({"role": "user", "content": [{"type": "system_content"}]})"),
      "conversation.messages[0].content[0].type must be text, or system_content in a system message, or "
      "developer_content in a developer message, not \"system_content\"");
  EXPECT_EQ(refusal_of_message(R"({"role": "user", "content": "x", "recipent": "y"})"),
            "conversation.messages[0].recipent is unknown; expected one of role, name, content, recipient, "
            "channel, "
            "content_type, repairs");
  EXPECT_EQ(refusal_of_message(
                R"({"role": "system", "content": [{"type": "system_content", "reasoning_effort": "max"}]})"),
            "conversation.messages[0].content[0].reasoning_effort must be \"Low\", \"Medium\" or \"High\", "
            "not \"max\"");
  EXPECT_EQ(
      refusal_of_message(R"({"role": "developer", "content": [{"type": "developer_content", "tools":
                                   {"functions": {"name": "f"}}}]})"),
      "conversation.messages[0].content[0].tools.functions.name is 'f'; it must equal the namespace's key");
  EXPECT_EQ(refusal_of_message(R"({"role": "developer", "content": [{"type": "developer_content", "tools":
                                   {"n": {"name": "n", "tools": [{"name": "t", "parameters": []}]}}}]})"),
            "conversation.messages[0].content[0].tools.n.tools[0].parameters must be a JSON schema, which is "
            "an object, not "
            "[]");
}

TEST(HarmonyJson, WhatIsShownOfABadFieldIsOneShortLine) {
  const std::string refusal =
      refusal_of_message(R"({"role": ")" + std::string(1000, 'x') + R"(\n", "content": ""})");
  EXPECT_LT(refusal.size(), 200u);
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
}

TEST(HarmonyJson, RefusesWhatIsNoJsonOrTooDeepOrTooWide) {
  EXPECT_TRUE(
      refusal_of("{").starts_with("the conversation is not valid JSON: parse error at line 1, column 2"));
  EXPECT_TRUE(refusal_of("\"\xFF\"").starts_with("the conversation is not valid JSON: "));
  EXPECT_EQ(refusal_of(std::string(1'000'000, '[')), "the conversation is nested more than 128 levels deep");
  std::string wide = "{\"0\": 0";
  for (int i = 1; i <= 10'000; ++i) wide += ", \"" + std::to_string(i) + "\": 0";
  EXPECT_EQ(refusal_of(wide + "}"), "the conversation contains an object with more than 10000 members");
}

TEST(HarmonyJson, AParsedMessageCarriesItsRepairs) {
  ParsedMessage parsed;
  parsed.message.text = "x";
  EXPECT_EQ(to_json(parsed).dump(), R"({"role":"user","content":[{"type":"text","text":"x"}]})");
  parsed.repairs = {"why"};
  EXPECT_EQ(to_json(parsed)["repairs"], Json::array({"why"}));
  EXPECT_EQ(conversation_from_json(Json{{"messages", {to_json(parsed)}}}).messages.at(0).text, "x");
}

}  // namespace
}  // namespace nibble::harmony
