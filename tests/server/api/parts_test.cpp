// Tests that pictures, documents and reasoning are treated in the same way in every API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/chat_request.h"
#include "server/api/ollama_request.h"
#include "server/api/response_request.h"
#include "tests/error_of.h"

namespace nibble::server {
namespace {

using testing::HasSubstr;

struct ToolResult {
  std::string text, ignored;
};
ToolResult result_of(const harmony::Chat& chat, const GenerationParams& params) {
  return {chat.messages.back().text, params.ignored.text()};
}

// Each function sends a tool result with the given content through one API, and returns what the API read.
ToolResult result_in_chat(const std::string& content) {
  const ChatRequest request = read_chat_request(
      R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                       {"role": "tool", "tool_call_id": "1", "content": )" +
      content + "}]}");
  return result_of(request.chat, request.params);
}
ToolResult result_in_response(const std::string& output) {
  const ResponseRequest request = read_response_request(
      R"({"input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "1", "output": )" +
      output + "}]}");
  return result_of(request.chat, request.params);
}
ToolResult result_in_message(const std::string& content) {
  const AnthropicRequest request = read_anthropic_request(
      R"({"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": )" +
          content + "}]}]}",
      true);
  return result_of(request.chat.chat, request.chat.params);
}

TEST(Parts, AResultOfAToolKeepsItsTextAndANoteOfThePicture) {
  const ToolResult chat = result_in_chat(
      R"([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}])");
  EXPECT_EQ(chat.text, "a[an image that can't be shown]");
  EXPECT_EQ(chat.ignored, "messages[].content.image_url (left out)");
  const ToolResult response = result_in_response(
      R"([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:"}])");
  EXPECT_EQ(response.text, "a[an image that can't be shown]");
  EXPECT_EQ(response.ignored, "input[].output.input_image (left out)");
  const ToolResult message = result_in_message(
      R"([{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "base64", "data": ""}}])");
  EXPECT_EQ(message.text, "a\n\n[an image that can't be shown]");
  EXPECT_EQ(message.ignored, "messages[].content[].content.image (left out)");
  const OllamaRequest ollama = read_ollama_chat(
      R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
                       {"role": "tool", "tool_name": "f", "content": "a", "images": ["AAAA"]}]})");
  EXPECT_EQ(ollama.chat.chat.messages[1].text, "a[an image that can't be shown]");
  EXPECT_EQ(ollama.chat.params.ignored.text(), "messages[].images (left out)");
}

TEST(Parts, ADocumentThatHoldsTextIsRead) {
  constexpr const char* kText{
      R"([{"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}])"};
  EXPECT_EQ(result_in_message(kText).text, "T\na");
  EXPECT_EQ(result_in_message(kText).ignored, "");
  EXPECT_EQ(
      result_in_message(
          R"([{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}}])")
          .text,
      "a\n\n[an image that can't be shown]");
  EXPECT_EQ(
      result_in_message(
          R"([{"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "a"}]}])")
          .text,
      "T\nS\na");
  const ToolResult pdf = result_in_message(
      R"([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}])");
  EXPECT_EQ(pdf.text, "[an attached file that can't be shown]");
  EXPECT_EQ(pdf.ignored, "messages[].content[].content.document (left out)");
  // base64: "aGk=" is "hi".
  EXPECT_EQ(
      result_in_chat(
          R"([{"type": "file", "file": {"filename": "n", "file_data": "data:text/plain;base64,aGk="}}])")
          .text,
      "n\nhi");
  EXPECT_EQ(result_in_response(
                R"([{"type": "input_file", "filename": "n", "file_data": "data:text/plain;base64,aGk="}])")
                .text,
            "n\nhi");
  for (const char* data :
       {"data:application/pdf;base64,aGk=", "data:text/plain;base64,aGk", "data:text/plain;base64,/w=="})
    EXPECT_EQ(
        result_in_response(R"([{"type": "input_file", "file_data": ")" + std::string(data) + R"("}])").text,
        "[an attached file that can't be shown]");
}

TEST(Parts, AMessageAboutAPictureIsRefused) {
  EXPECT_THAT(
      error_of([] {
        read_chat_request(
            R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})");
      }),
      HasSubstr("request.messages[0].content[0].type must be \"text\": the model reads only text"));
  EXPECT_THAT(
      error_of([] {
        read_response_request(R"({"input": [{"role": "user", "content": [{"type": "input_image"}]}]})");
      }),
      HasSubstr("request.input[0].content[0].type must be"));
  EXPECT_THAT(error_of([] {
                read_anthropic_request(
                    R"({"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": "image"}]}]})",
                    true);
              }),
              HasSubstr("request.messages[0].content[0].type must be"));
  EXPECT_THAT(error_of([] {
                read_ollama_chat(R"({"messages": [{"role": "user", "content": "a", "images": ["AAAA"]}]})");
              }),
              HasSubstr("request.messages[0].images must be empty"));
}

TEST(Parts, ReasoningComesBackUnderAnyName) {
  for (
      const char* member :
      {R"("reasoning": "r")", R"("reasoning_content": "r")", R"("thinking": "r")",
       R"("reasoning_details": [{"type": "reasoning.text", "text": "r", "format": "x", "index": 0, "signature": "s"}])",
       R"("reasoning_details": [{"type": "reasoning.summary", "summary": "r"}])",
       R"("thinking_blocks": [{"type": "thinking", "thinking": "r", "signature": "s"}])",
       R"("reasoning": "", "reasoning_content": "r")"}) {
    const ChatRequest request = read_chat_request(R"({"messages": [{"role": "assistant", "content": "a", )" +
                                                  std::string(member) + "}]}");
    EXPECT_EQ(request.chat.messages[0].reasoning, "r") << member;
    EXPECT_EQ(request.params.ignored.text(), "") << member;
  }
}

TEST(Parts, PiecesOfStreamedReasoningAreOneText) {
  const ChatRequest request =
      read_chat_request(R"({"messages": [{"role": "assistant", "content": "a", "reasoning_details": [
      {"type": "reasoning.text", "text": "So", "index": 0}, {"type": "reasoning.text", "text": "me", "index": 0},
      {"type": "reasoning.text", "text": "More", "index": 1}, {"type": "reasoning.encrypted", "data": "x", "index": 2}]}]})");
  EXPECT_EQ(request.chat.messages[0].reasoning, "Some\n\nMore");
  EXPECT_EQ(request.params.ignored.text(), "messages[].reasoning_details.reasoning.encrypted (left out)");
}

}  // namespace
}  // namespace nibble::server
