// Tests that every ignored member of a request is reported, at any depth and in any API, except members that
// clients always send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/ollama_request.h"
#include "server/api/response_request.h"
#include "server/api/tokenize_request.h"
#include "tests/error_of.h"

namespace nibble::server {
namespace {

std::string named_in_chat(const std::string& members) {
  return read_chat_request("{" + members + "}").params.ignored.text();
}
std::string named_in_response(const std::string& members) {
  return read_response_request("{" + members + "}").params.ignored.text();
}
std::string named_in_message(const std::string& members) {
  return read_anthropic_request(R"({"max_tokens": 9, )" + members + "}", true).chat.params.ignored.text();
}
std::string named_in_ollama(const std::string& members) {
  return read_ollama_chat("{" + members + "}").chat.params.ignored.text();
}

TEST(IgnoredMembers, AChatNamesThemWithTheirPlace) {
  EXPECT_EQ(
      named_in_chat(
          R"("messages": [{"role": "user", "content": "a", "foo": 1}, {"role": "user", "content": "b", "foo": 2}])"),
      "messages[].foo");
  EXPECT_EQ(
      named_in_chat(
          R"("messages": [{"role": "user", "content": [{"type": "text", "text": "a", "tone": "b"}], "name": "me"}])"),
      "messages[].content[].tone, messages[].name");
  const std::string hi = R"("messages": [{"role": "user", "content": "a"}])";
  EXPECT_EQ(named_in_chat(hi + R"(, "tools": [{"type": "function", "bar": 1,
                        "function": {"name": "f", "returns": {}}}])"),
            "tools[].bar, tools[].function.returns");
  EXPECT_EQ(named_in_chat(hi + R"(, "tools": [{"type": "function", "function": {"name": "f"}}],
                        "tool_choice": {"type": "function", "function": {"name": "f", "a": 1}, "b": 2})"),
            "tool_choice.function.a, tool_choice.b");
  EXPECT_EQ(named_in_chat(hi + R"(, "response_format": {"type": "json_schema", "a": 1,
                        "json_schema": {"name": "n", "b": 2, "schema": {"type": "object", "c": 3}}})"),
            "response_format.a, response_format.json_schema.b");
  EXPECT_EQ(named_in_chat(hi + R"(, "stream": true, "stream_options": {"a": 1})"), "stream_options.a");
  EXPECT_EQ(named_in_chat(R"("messages": [{"role": "assistant", "content": null, "tool_calls": [
                        {"id": "1", "type": "function", "a": 1, "function": {"name": "f", "arguments": "{}", "b": 2}}]},
                        {"role": "tool", "tool_call_id": "1", "content": "c", "is_error": true}])"),
            "messages[].tool_calls[].a, messages[].tool_calls[].function.b, messages[].is_error");
}

TEST(IgnoredMembers, AResponseNamesThemWithTheirPlace) {
  EXPECT_EQ(
      named_in_response(
          R"("input": [{"role": "user", "content": [{"type": "input_text", "text": "a", "b": 1}], "c": 2},
                            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}", "d": 3},
                            {"type": "function_call_output", "call_id": "1", "output": "x", "e": 4}])"),
      "input[].content[].b, input[].c, input[].d, input[].e");
  EXPECT_EQ(
      named_in_response(
          R"("input": "a", "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "b": 1}, "c": 2})"),
      "text.c, text.format.b");
  EXPECT_EQ(named_in_response(R"("input": "a", "reasoning": {"effort": "low", "b": 1}, "tools": [
                            {"type": "function", "name": "f", "c": 2}, {"type": "web_search", "filters": {}}])"),
            "reasoning.b, tools.web_search (left out), tools[].c");
  EXPECT_EQ(
      named_in_response(
          R"("input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}, {"role": "user", "content": "a"}])"),
      "input[].encrypted_content");
}

TEST(IgnoredMembers, AnAnthropicMessageNamesThemWithTheirPlace) {
  EXPECT_EQ(named_in_message(
                R"("messages": [{"role": "user", "content": [{"type": "text", "text": "a", "b": 1}], "c": 2}],
                           "system": [{"type": "text", "text": "s", "d": 3}],
                           "tools": [{"name": "f", "input_schema": {"type": "object", "x": 1}, "e": 4}],
                           "tool_choice": {"type": "auto", "disable_parallel_tool_use": true, "g": 5})"),
            "messages[].content[].b, messages[].c, system[].d, tools[].e, tool_choice.g");
  EXPECT_EQ(
      named_in_message(
          R"("messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"},
                            {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}, "a": 1}]},
                           {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "r", "b": 2}]}])"),
      "messages[].content.redacted_thinking (left out), messages[].content[].a, messages[].content[].b");
}

TEST(IgnoredMembers, OllamasApiNamesThemWithTheirPlace) {
  EXPECT_EQ(
      named_in_ollama(
          R"("messages": [{"role": "user", "content": "a", "b": 1}], "options": {"seed": 1, "c": 2}, "truncate": true,
                          "tools": [{"type": "function", "function": {"name": "f", "d": 3}}])"),
      "options.c, truncate, messages[].b, tools[].function.d");
  IgnoredFields ignored;
  read_ollama_model(R"({"model": "m", "verbose": true, "a": 1})", ignored);
  EXPECT_EQ(ignored.text(), "verbose, a");
}

TEST(IgnoredMembers, TextsAndTokensNameThemToo) {
  EXPECT_EQ(read_completion_request(R"({"prompt": "a", "structured_outputs": {"regex": "a", "b": 1}})")
                .params.ignored.text(),
            "structured_outputs.b");
  EXPECT_EQ(read_tokenize_request(R"({"prompt": "a", "b": 1})").ignored.text(), "b");
  EXPECT_EQ(
      read_tokenize_request(R"({"messages": [{"role": "user", "content": "a", "b": 1}]})").ignored.text(),
      "messages[].b");
  EXPECT_EQ(read_detokenize_request(R"({"tokens": [1], "b": 1})").ignored.text(), "b");
}

TEST(IgnoredMembers, WhatAnswersHaveAndClientsSendBackIsNotNamed) {
  EXPECT_EQ(
      named_in_chat(
          R"("messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
      {"role": "assistant", "content": "b", "refusal": null, "annotations": [], "audio": null, "reasoning": "r", "reasoning_content": "r",
       "tool_calls": [{"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "1", "name": "f", "content": "c"}])"),
      "");
  EXPECT_EQ(named_in_response(R"("input": [
      {"id": "rs_1", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}], "encrypted_content": "x", "status": "completed"},
      {"id": "msg_1", "type": "message", "role": "assistant", "phase": "final_answer", "status": "completed",
       "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]},
      {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "1", "name": "f", "arguments": "{}"},
      {"id": "o", "type": "function_call_output", "status": "completed", "call_id": "1", "output": "x"}])"),
            "");
  EXPECT_EQ(
      named_in_message(
          R"("messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "r", "signature": "s"},
      {"type": "text", "text": "a", "citations": null}, {"type": "tool_use", "id": "1", "name": "f", "input": {}, "caller": {"type": "direct"}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "c", "cache_control": {"type": "ephemeral"}}]}])"),
      "");
}

TEST(IgnoredMembers, NamesAreGivenOnceAndFitIntoAHeader) {
  EXPECT_EQ(named_in_chat(R"("messages": [{"role": "user", "content": "a", "x\r\ny": 1, "id object": 2}])"),
            "messages[].x??y, messages[].id?object");
}

TEST(DuplicateKeys, AreRefusedAtEveryDepth) {
  EXPECT_EQ(error_of([] { read_chat_request(R"({"messages": [], "seed": 1, "seed": 2})"); }),
            "the body contains \"seed\" twice; remove one of them");
  EXPECT_EQ(error_of([] {
              read_chat_request(R"({"messages": [{"a": [1]}, {"role": "user", "role": "system"}]})");
            }),
            "the body contains \"messages[1].role\" twice; remove one of them");
  EXPECT_EQ(error_of([] {
              read_anthropic_request(
                  R"({"tools": [{"input_schema": {"properties": {"a": {}, "b": {}, "a": {}}}}]})", true);
            }),
            "the body contains \"tools[0].input_schema.properties.a\" twice; remove one of them");
  // A key that occurs in two objects is not a duplicate.
  EXPECT_EQ(
      named_in_chat(R"("messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}])"),
      "");
}

}  // namespace
}  // namespace nibble::server
