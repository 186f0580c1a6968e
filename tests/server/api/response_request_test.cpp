#include "server/api/response_request.h"
#include "core/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harmony/render.h"
#include "server/api/sealed_reasoning.h"
#include "server/http/http_error.h"
#include "tests/error_of.h"
#include "tests/server/tiny.h"

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

// Returns the prompt of a request, without the system message.
std::string prompt_of(const std::string& request) {
  const harmony::Conversation conversation = harmony::to_conversation(read_response_request(request).chat);
  const std::string text = harmony::render(conversation, tiny(), {}).text;
  return text.substr(text.find("<|end|>") + 7);
}

TEST(ResponseRequest, ToolsOfEveryKindThatHasAFormAreOffered) {
  const ResponseRequest request = read_response_request(R"({"input": "a", "tools": [
      {"type": "web_search"}, {"type": "local_shell"}, {"type": "image_generation"},
      {"type": "custom", "name": "apply_patch", "description": "Edits.",
       "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
      {"type": "namespace", "name": "mail", "description": "Mail.", "tools": [{"type": "function", "name": "send"}]},
      {"type": "tool_search", "execution": "client", "description": "Finds."}, {"type": "function", "name": "f"}]})");
  std::string kinds;
  for (const OfferedTool& tool : request.offered)
    kinds += fmt::format("{}.{}:{} ", tool.space, tool.name, static_cast<int>(tool.kind));
  EXPECT_EQ(kinds,
            "functions.shell:2 functions.apply_patch:1 mail.send:0 functions.tool_search:3 functions.f:0 ");
  EXPECT_THAT(request.chat.tools[1].description, HasSubstr("grammar (lark):\nstart: X"));
  EXPECT_EQ(request.chat.namespaces[0].tools[0].name, "send");
  EXPECT_EQ(request.params.ignored.text(), "tools.web_search (left out), tools.image_generation (left out)");
  const grammar::Source input = request.offered[1].input.value();
  EXPECT_EQ(input.language, grammar::Language::kLark);
  EXPECT_EQ(input.text, "start: X");
  EXPECT_EQ(input.argument, "input");
}

TEST(ResponseRequest, WhatAgentsSendBackReachesTheModel) {
  EXPECT_EQ(prompt_of(R"({"input": [
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": null},
      {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Look:"}]},
      {"type": "local_shell_call", "call_id": "1", "status": "completed",
       "action": {"type": "exec", "command": ["ls"], "timeout_ms": 9, "working_directory": "/", "env": {}, "user": null}},
      {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]},
      {"type": "custom_tool_call", "call_id": "2", "name": "apply_patch", "input": "\"x\""},
      {"type": "custom_tool_call_output", "call_id": "2", "output": "ok"},
      {"type": "function_call", "call_id": "3", "namespace": "mail", "name": "send", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "3", "output": "sent"},
      {"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"type": "ghost_snapshot"},
      {"type": "compaction", "encrypted_content": "x"},
      {"type": "agent_message", "author": "a", "recipient": "b", "content": "More."}]})"),
            "<|start|>user<|message|>Go.<|end|><|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>"
            "<|start|>assistant<|channel|>commentary<|message|>Look:<|end|>"
            "<|start|>assistant to=functions.shell<|channel|>commentary <|constrain|>json<|message|>"
            R"({"command":["ls"],"workdir":"/","timeout_ms":9}<|call|>)"
            "<|start|>functions.shell to=assistant<|channel|>commentary<|message|>a[an image that can't be "
            "shown]<|end|>"
            "<|start|>assistant to=functions.apply_patch<|channel|>commentary <|constrain|>json<|message|>"
            R"({"input":"\"x\""}<|call|>)"
            "<|start|>functions.apply_patch to=assistant<|channel|>commentary<|message|>ok<|end|>"
            "<|start|>assistant to=mail.send<|channel|>commentary <|constrain|>json<|message|>{}<|call|>"
            "<|start|>mail.send to=assistant<|channel|>commentary<|message|>sent<|end|>"
            "<|start|>user<|message|>More.<|end|><|start|>assistant");
}

TEST(ResponseRequest, SealedReasoningReachesTheModel) {
  const auto item = [](const std::string& sealed) {
    return R"({"input": [{"role": "user", "content": "Go."},
           {"type": "reasoning", "summary": [{"type": "summary_text", "text": "S."}], "encrypted_content": ")" +
           sealed + R"("}, {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
           {"type": "function_call_output", "call_id": "1", "output": "a"}]})";
  };
  EXPECT_THAT(prompt_of(item(seal_reasoning("Hm."))), HasSubstr("<|channel|>analysis<|message|>Hm.<|end|>"));
  EXPECT_TRUE(read_response_request(item(seal_reasoning("Hm."))).params.ignored.empty());
  EXPECT_THAT(prompt_of(item("gAAAAABo")), HasSubstr("<|channel|>analysis<|message|>S.<|end|>"));
}

TEST(ResponseRequest, ACallMayLackItsArguments) {
  for (const char* arguments : {"", R"(, "arguments": null)"})
    EXPECT_THAT(prompt_of(R"({"input": [{"type": "function_call", "call_id": "1", "name": "f")" +
                          std::string(arguments) + "}]}"),
                HasSubstr("<|message|>{}<|call|>"));
}

TEST(ResponseRequest, ShellAndApplyPatchAreFunctionsThatTheClientRuns) {
  const ResponseRequest request = read_response_request(R"({"input": "a", "tools": [
      {"type": "shell"}, {"type": "apply_patch"}, {"type": "shell", "environment": {"type": "container_auto"}}],
      "tool_choice": {"type": "apply_patch"}})");
  ASSERT_EQ(request.offered.size(), 2u);
  EXPECT_EQ(request.offered[0].kind, ToolKind::kShell);
  EXPECT_FALSE(request.offered[0].may_be_called);
  EXPECT_TRUE(request.offered[1].may_be_called && request.params.must_call);
  EXPECT_EQ(request.params.ignored.text(), "tools.shell (left out)");
}

TEST(ResponseRequest, WhatTheClientRanReachesTheModel) {
  EXPECT_EQ(
      prompt_of(R"({"input": [
      {"type": "shell_call", "call_id": "1", "action": {"commands": ["ls"], "timeout_ms": 9, "max_output_length": null}, "status": "completed"},
      {"type": "shell_call_output", "call_id": "1", "output": [
        {"stdout": "a.txt\n", "stderr": "b", "outcome": {"type": "exit", "exit_code": 0}}, {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]},
      {"type": "apply_patch_call", "call_id": "2", "operation": {"type": "create_file", "path": "p", "diff": "+x"}, "status": "completed"},
      {"type": "apply_patch_call_output", "call_id": "2", "status": "failed", "output": "no such file"}]})"),
      "<|start|>assistant to=functions.shell<|channel|>commentary <|constrain|>json<|message|>"
      R"({"commands":["ls"],"timeout_ms":9}<|call|>)"
      "<|start|>functions.shell to=assistant<|channel|>commentary<|message|>a.txt\nb\n[exit code "
      "0]\n[timeout]<|end|>"
      "<|start|>assistant to=functions.apply_patch<|channel|>commentary <|constrain|>json<|message|>"
      R"({"type":"create_file","path":"p","diff":"+x"}<|call|>)"
      "<|start|>functions.apply_patch to=assistant<|channel|>commentary<|message|>Failed: no such file<|end|>"
      "<|start|>assistant");
}

TEST(ResponseRequest, AnItemOfNothingButAnIdIsAReference) {
  const std::string stored = R"({"type": "message", "role": "user", "content": "x"})";
  Json body = Json::parse(
      R"({"input": [{"id": "msg_1"}, {"id": "msg_1", "type": null}, {"id": "a", "role": "user", "content": "y"}]})");
  resolve_references(body, [&](const std::string& id) { return id == "msg_1" ? &stored : nullptr; });
  EXPECT_EQ(body["input"][0]["content"], "x");
  EXPECT_EQ(body["input"][1]["content"], "x");
  EXPECT_EQ(body["input"][2]["content"], "y");
  body = Json::parse(R"({"input": [{"id": "rs_unknown"}]})");
  EXPECT_THROW(resolve_references(body, [](const std::string&) { return nullptr; }), HttpError);
}

TEST(ResponseRequest, ASearchOfToolsAddsWhatItFinds) {
  const ResponseRequest request = read_response_request(R"({"input": [
      {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {"query": "mail"}},
      {"type": "tool_search_output", "call_id": "1", "status": "completed", "execution": "client",
       "tools": [{"type": "function", "name": "send"}]},
      {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "read"}]}]})");
  EXPECT_EQ(request.chat.messages[0].tool_calls[0].arguments, R"({"query":"mail"})");
  EXPECT_EQ(request.chat.messages[1].text, "These tools can be called now: send");
  ASSERT_EQ(request.offered.size(), 2u);
  EXPECT_EQ(request.offered[1].name, "read");
}

TEST(ResponseRequest, TheChoiceSaysWhichToolsMayBeCalled) {
  const auto callable = [](const std::string& choice) {
    const ResponseRequest request = read_response_request(
        R"({"input": "a", "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}],
            "tool_choice": )" +
        choice + "}");
    std::string names = request.params.must_call ? "!" : "";
    for (const OfferedTool& tool : request.offered)
      if (tool.may_be_called) names += tool.name;
    return names;
  };
  EXPECT_EQ(callable(R"("auto")"), "fg");
  EXPECT_EQ(callable(R"("none")"), "");
  EXPECT_EQ(callable(R"("required")"), "!fg");
  EXPECT_EQ(callable(R"({"type": "function", "name": "f"})"), "!f");
  EXPECT_EQ(
      callable(R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "g"}]})"),
      "g");
  for (const char* choice : {R"({"type": "function", "name": "h"})", R"({"type": "web_search"})",
                             R"({"type": "allowed_tools", "mode": "required", "tools": []})"})
    EXPECT_THAT(error_of([&] { callable(choice); }), HasSubstr("request.tool_choice must be")) << choice;
}

TEST(ResponseRequest, TheFormOfTheAnswerIsInText) {
  const OutputFormat format =
      read_response_request(R"({"input": "a", "text": {"format": {"type": "json_schema",
      "name": "place", "description": "Where", "schema": {"type": "object"}, "strict": true}}})")
          .params.format;
  EXPECT_EQ(format.source->text, R"({"type":"object"})");
  EXPECT_TRUE(format.source->is_strict);
  EXPECT_EQ(format.told->name, "place");
  EXPECT_EQ(format.told->description, "Where");
  EXPECT_EQ(format.field, "request.text.format");
}

TEST(ResponseRequest, OnlyKnownValuesOfIncludeAreTaken) {
  EXPECT_EQ(read_response_request(R"({"input": "a", "include": ["message.output_text.logprobs"]})")
                .params.sample.num_logprobs,
            0);
  const ResponseRequest sealed =
      read_response_request(R"({"input": "a", "include": ["reasoning.encrypted_content"]})");
  EXPECT_TRUE(sealed.params.ignored.empty() && sealed.seals_reasoning);
  EXPECT_THAT(error_of([] { read_response_request(R"({"input": "a", "include": ["everything"]})"); }),
              HasSubstr("request.include[0] must be one of the values"));
}

TEST(ResponseRequest, ABackgroundNeedsAStore) {
  EXPECT_TRUE(read_response_request(R"({"input": "a", "background": true})").is_background);
  EXPECT_TRUE(read_response_request(R"({"input": "a", "background": true, "stream": true})").params.stream);
  EXPECT_THAT(
      error_of([] { read_response_request(R"({"input": "a", "background": true, "store": false})"); }),
      HasSubstr("request.background must be false"));
}

TEST(ResponseRequest, AReferenceBecomesTheItem) {
  Json body = Json::parse(R"({"input": [{"type": "item_reference", "id": "msg_1"}]})");
  const std::string item = R"({"type": "message", "role": "user", "content": "hi"})";
  resolve_references(body, [&](const std::string& id) { return id == "msg_1" ? &item : nullptr; });
  EXPECT_EQ(read_response(body).chat.messages[0].text, "hi");
  body["input"][0] = Json::parse(R"({"type": "item_reference", "id": "msg_2"})");
  EXPECT_THROW(resolve_references(body, [](const std::string&) { return nullptr; }), HttpError);
}

TEST(ResponseRequest, ItemsThatAreKeptHaveIds) {
  const ResponseRequest text = read_response_request(R"({"input": "hi"})");
  ASSERT_EQ(text.input_items.size(), 1u);
  EXPECT_THAT(text.input_items[0].json,
              HasSubstr(R"("content":[{"type":"input_text","text":"hi"}],"id":"msg_)"));
  EXPECT_EQ(
      read_response_request(R"({"input": [{"role": "user", "content": "a", "id": "m"}]})").input_items[0].id,
      "m");
  EXPECT_TRUE(read_response_request(R"({"input": "hi", "store": false})").input_items.empty());
}

}  // namespace
}  // namespace nibble::server
