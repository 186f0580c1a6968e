#include "server/api/response_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

using testing::ElementsAre;

struct Heard {
  std::vector<std::string> types;  // consecutive deltas count once
  Json items;
};
Heard hear(const std::string& said, bool is_complete = true, const std::vector<std::string>& stop = {}) {
  ChatAnswer answer(tiny(), {{"f", "", {}}}, {.strings = stop});
  ResponseItems items(tiny(), false);
  Heard heard;
  const auto note = [&](const std::vector<Json>& events) {
    for (const Json& event : events)
      if (heard.types.empty() || heard.types.back() != event["type"]) heard.types.push_back(event["type"]);
  };
  for (const TokenId token : tiny().encode(said, SpecialTokens::kRecognise))
    note(items.push(answer.push({.token = token})));
  note(items.push(answer.finish()));
  note(items.finish(is_complete));
  heard.items = items.items();
  return heard;
}

constexpr const char* kAnswer{
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Let me look."
    "<|end|><|start|>assistant<|channel|>commentary to=functions.f "
    "<|constrain|>json<|message|>{\"a\":1}<|call|>"};

TEST(ResponseItems, EachMessageOfTheModelIsAnItemWithItsEventsInOrder) {
  const Heard heard = hear(kAnswer);
  EXPECT_THAT(heard.types, ElementsAre("response.output_item.added", "response.content_part.added",
                                       "response.reasoning_text.delta", "response.reasoning_text.done",
                                       "response.content_part.done", "response.output_item.done",  //
                                       "response.output_item.added", "response.content_part.added",
                                       "response.output_text.delta", "response.output_text.done",
                                       "response.content_part.done", "response.output_item.done",  //
                                       "response.output_item.added", "response.function_call_arguments.delta",
                                       "response.function_call_arguments.done", "response.output_item.done"));
  ASSERT_EQ(heard.items.size(), 3u);
  EXPECT_EQ(heard.items[0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(heard.items[1]["content"][0]["text"], "Let me look.");
  EXPECT_EQ(heard.items[2]["name"], "f");
  EXPECT_EQ(heard.items[2]["arguments"], "{\"a\":1}");
}

TEST(ResponseItems, TwoMessagesOfAKindAreTwoItemsWithoutAnEmptyLine) {
  const Json items = hear(
                         "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis"
                         "<|message|>Two.<|end|>")
                         .items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1]["content"][0]["text"], "Two.");
}

TEST(ResponseItems, WhatWasCutOffSaysSo) {
  const Json items =
      hear("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It",
           /*is_complete=*/false)
          .items;
  EXPECT_EQ(items[0]["status"], "completed");
  EXPECT_EQ(items[1]["status"], "incomplete");
}

TEST(ResponseItems, AStopStringAtTheStartOfTheAnswerLeavesNoItem) {
  EXPECT_TRUE(hear("<|channel|>final<|message|>END of it<|return|>", true, {"END"}).items.empty());
}

}  // namespace
}  // namespace nibble::server
