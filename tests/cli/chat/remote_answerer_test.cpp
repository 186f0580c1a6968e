#include "cli/chat/remote_answerer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble::cli {
namespace {

using testing::HasSubstr;

harmony::Chat two_turns() {
  harmony::Chat chat;
  chat.instructions = "Be brief.";
  chat.messages.resize(3);
  chat.messages[0].text = "Hello";
  chat.messages[1].role = harmony::Role::kAssistant;
  chat.messages[1].text = "Hi!";
  chat.messages[1].reasoning = "A greeting.";
  chat.messages[2].text = "And now?";
  return chat;
}

TEST(ChatRequest, HasTheConversationAndLeavesDefaultsToTheServer) {
  const Json body = chat_request("mine", two_turns(), {});
  EXPECT_EQ(body, Json::parse(R"({"model": "mine", "messages": [
      {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"},
      {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "And now?"}],
      "reasoning_effort": "medium", "stream": true, "stream_options": {"include_usage": true}})"));
}

TEST(ChatRequest, HasWhatWasSet) {
  Settings settings;
  settings.temperature = 0;
  settings.top_k = 5;
  settings.seed = 7;
  settings.max_tokens = 9;
  settings.stop = {"x"};
  settings.reasoning = "high";
  const Json body = chat_request("mine", two_turns(), settings);
  EXPECT_EQ(body["temperature"], 0);
  EXPECT_EQ(body["top_k"], 5);
  EXPECT_EQ(body["seed"], 7);
  EXPECT_EQ(body["max_tokens"], 9);
  EXPECT_EQ(body["stop"], Json::array({"x"}));
  EXPECT_EQ(body["reasoning_effort"], "high");
  EXPECT_FALSE(body.contains("top_p"));
}

TEST(ChatRequest, ASchemaIsSentAsTheAPIHasIt) {
  harmony::Chat chat = two_turns();
  chat.response_format =
      harmony::ResponseFormat{.name = "response", .description = {}, .schema = R"({"type": "object"})"};
  const Json body = chat_request("mine", chat, {});
  EXPECT_EQ(body["response_format"], Json::parse(R"({"type": "json_schema", "json_schema":
      {"name": "response", "schema": {"type": "object"}}})"));
}

TEST(ChatRequest, WhatTheAPICannotCarryIsRefused) {
  Settings settings;
  settings.grammar = "x.gbnf";
  EXPECT_THAT(error_of([&] { chat_request("mine", two_turns(), settings); }), HasSubstr("--grammar"));
  settings = {};
  settings.reasoning_budget = 5;
  EXPECT_THAT(error_of([&] { chat_request("mine", two_turns(), settings); }),
              HasSubstr("--reasoning-budget"));
}

}  // namespace
}  // namespace nibble::cli
