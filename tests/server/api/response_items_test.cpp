#include "server/api/response_items.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/sealed_reasoning.h"
#include "tests/server/tiny.h"

namespace nibble::server {
namespace {

using testing::ElementsAre;

struct Heard {
  std::vector<std::string> types;  // of the events; consecutive events of one type are listed once
  Json items;
};
Heard hear(const std::string& said, bool is_complete = true, const std::vector<std::string>& stop = {},
           const OfferedTool& tool = {"f"}, bool seals_reasoning = false) {
  ChatAnswer answer(tiny(), {tool}, {.strings = stop});
  ResponseItems items(tiny(), false, seals_reasoning);
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
  EXPECT_EQ(heard.items[1]["phase"], "commentary");
  EXPECT_EQ(heard.items[2]["name"], "f");
  EXPECT_EQ(heard.items[2]["arguments"], "{\"a\":1}");
}

TEST(ResponseItems, ReasoningIsSealedOnRequest) {
  EXPECT_TRUE(hear(kAnswer).items[0]["encrypted_content"].is_null());
  const Json item = hear(kAnswer, true, {}, {"f"}, /*seals_reasoning=*/true).items[0];
  EXPECT_EQ(open_reasoning(item["encrypted_content"].get<std::string>()), "Hm.");
}

Heard hear_call(ToolKind kind, const std::string& arguments) {
  return hear("<|channel|>commentary to=functions.t <|constrain|>json<|message|>" + arguments + "<|call|>",
              true, {}, {"t", "functions", kind});
}

TEST(ResponseItems, ACallHasTheFormOfItsTool) {
  const Heard custom = hear_call(ToolKind::kCustom, R"({"input":"x = 1"})");
  EXPECT_THAT(custom.types, ElementsAre("response.output_item.added", "response.custom_tool_call_input.delta",
                                        "response.custom_tool_call_input.done", "response.output_item.done"));
  EXPECT_EQ(custom.items[0]["type"], "custom_tool_call");
  EXPECT_EQ(custom.items[0]["input"], "x = 1");
  EXPECT_EQ(custom.items[0]["name"], "t");

  const Heard shell =
      hear_call(ToolKind::kLocalShell, R"({"command":["ls","-l"],"workdir":"/tmp","timeout_ms":5})");
  EXPECT_THAT(shell.types, ElementsAre("response.output_item.added", "response.output_item.done"));
  EXPECT_EQ(
      shell.items[0]["action"],
      Json::parse(
          R"({"type":"exec","command":["ls","-l"],"env":{},"working_directory":"/tmp","timeout_ms":5})"));

  const Json search = hear_call(ToolKind::kToolSearch, R"({"query":"mail"})").items[0];
  EXPECT_EQ(search["arguments"]["query"], "mail");
  EXPECT_EQ(search["execution"], "client");
  const Json commands = hear_call(ToolKind::kShell, R"({"commands":["ls"],"timeout_ms":5})").items[0];
  EXPECT_EQ(commands["type"], "shell_call");
  EXPECT_EQ(commands["action"].dump(), R"({"commands":["ls"],"timeout_ms":5,"max_output_length":null})");
  EXPECT_EQ(hear_call(ToolKind::kShell, "ls").items[0]["action"]["commands"].dump(), R"(["ls"])");
  const Json patch = hear_call(ToolKind::kApplyPatch, R"({"type":"delete_file","path":"p"})").items[0];
  EXPECT_EQ(patch["type"], "apply_patch_call");
  EXPECT_EQ(patch["operation"].dump(), R"({"type":"delete_file","path":"p"})");
}

TEST(ResponseItems, WhatIsNoCommandIsPassedOnAsOne) {
  const auto command = [](const std::string& arguments) {
    return hear_call(ToolKind::kLocalShell, arguments).items[0]["action"]["command"].dump();
  };
  EXPECT_EQ(command(R"({"command":"ls -l"})"), R"(["bash","-lc","ls -l"])");
  EXPECT_EQ(command("ls"), R"(["bash","-lc","ls"])");
  EXPECT_EQ(command(R"({"command":["ls",7]})"), R"(["bash","-lc","{\"command\":[\"ls\",7]}"])");
  EXPECT_EQ(hear_call(ToolKind::kToolSearch, "[1]").items[0]["arguments"]["query"], "[1]");
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

TEST(ResponseItems, WhatWasCutOffOfACommandIsNoCommand) {
  const std::string arguments = R"({"command":["rm","-rf","/tmp/a)";
  const auto cut = [&](ToolKind kind) {
    return hear("<|channel|>commentary to=functions.t <|constrain|>json<|message|>" + arguments, false, {},
                {"t", "functions", kind})
        .items.at(0);
  };
  const Json shell = cut(ToolKind::kLocalShell);
  EXPECT_EQ(shell["status"], "incomplete");
  EXPECT_EQ(shell["action"]["command"], Json::array());
  EXPECT_EQ(cut(ToolKind::kToolSearch)["arguments"], Json::object());
  EXPECT_EQ(cut(ToolKind::kFunction)["arguments"], arguments);
}

TEST(ResponseItems, AStopStringAtTheStartOfTheAnswerLeavesNoItem) {
  EXPECT_TRUE(hear("<|channel|>final<|message|>END of it<|return|>", true, {"END"}).items.empty());
}

}  // namespace
}  // namespace nibble::server
