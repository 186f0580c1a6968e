#include "harmony/chat.h"
#include "core/text/json.h"

#include <gtest/gtest.h>

#include "core/errors/error.h"
#include "harmony/json.h"
#include "harmony/render.h"
#include "tests/error_of.h"
#include "tests/harmony/template_differences.h"
#include "tests/harmony/vocabulary.h"

namespace nibble::harmony {
namespace {

std::string prompt_of(std::string_view chat) {
  return render(to_conversation(chat_from_json(parse_json(chat, "chat"))), tiny(), {}).text;
}

// Returns the prompt from the first user message on.
std::string turns_of(const std::string& prompt) { return prompt.substr(prompt.find("<|start|>user")); }

// The tasks were rendered with the model's chat template, which differs from the official renderer in known
// places (template_differences.h).
TEST(Chat, GivesThePromptsOfTheChatTemplateButForItsKnownDifferences) {
  int num_calls = 0;
  for (const Json& task : json_lines("tests/golden/eval/tasks.jsonl")) {
    const std::string expected = as_official_renderer(task["prompt"], task["messages"]);
    EXPECT_EQ(prompt_of(task.dump()), expected) << task["id"];
    num_calls += task["messages"].size() > 1;
  }
  EXPECT_EQ(num_calls, 40);
}

TEST(Chat, WhatAnApiCallsSystemIsTheDeveloperMessage) {
  EXPECT_EQ(
      prompt_of(
          R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Rhyme."},
                                       {"role": "user", "content": "Hi"}, {"role": "system", "content": "Stop rhyming."}],
                          "date": "2025-06-28", "reasoning_effort": "high", "model_identity": "You are nibble."})"),
      "<|start|>system<|message|>You are nibble.\nKnowledge cutoff: 2024-06\nCurrent date: 2025-06-28\n\n"
      "Reasoning: high\n\n# Valid channels: analysis, commentary, final. Channel must be included for every "
      "message.<|end|><|start|>developer<|message|># Instructions\n\nBe brief.\n\nRhyme.<|end|>"
      "<|start|>user<|message|>Hi<|end|><|start|>developer<|message|># Instructions\n\nStop rhyming.<|end|>"
      "<|start|>assistant");
}

TEST(Chat, AnAssistantMessageBecomesItsThoughtsItsWordsAndItsCalls) {
  const std::string prompt = prompt_of(R"({"messages": [
      {"role": "user", "content": [{"type": "text", "text": "Time "}, {"type": "text", "text": "and place?"}]},
      {"role": "assistant", "reasoning": "Two calls.", "content": "One moment.", "tool_calls": [
          {"id": "a", "type": "function", "function": {"name": "time", "arguments": "{\"zone\":1}"}},
          {"id": "b", "type": "function", "function": {"name": "place", "arguments": {"x": 1, "y": [2, "z"]}}}]},
      {"role": "tool", "tool_call_id": "b", "content": "here"},
      {"role": "tool", "tool_call_id": "a", "content": "now"}]})");
  EXPECT_EQ(turns_of(prompt),
            "<|start|>user<|message|>Time and place?<|end|>"
            "<|start|>assistant<|channel|>analysis<|message|>Two calls.<|end|>"
            "<|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>"
            "<|start|>assistant to=functions.time<|channel|>commentary "
            "<|constrain|>json<|message|>{\"zone\":1}<|call|>"
            "<|start|>assistant to=functions.place<|channel|>commentary <|constrain|>json<|message|>"
            "{\"x\": 1, \"y\": [2, \"z\"]}<|call|>"
            "<|start|>functions.place to=assistant<|channel|>commentary<|message|>here<|end|>"
            "<|start|>functions.time to=assistant<|channel|>commentary<|message|>now<|end|>"
            "<|start|>assistant");
}

TEST(Chat, ThoughtsOfAFinishedTurnAreNotSentBack) {
  EXPECT_EQ(turns_of(prompt_of(R"({"messages": [{"role": "user", "content": "1+1?"},
                {"role": "assistant", "reasoning_content": "Easy.", "content": "2"}, {"role": "user", "content": "2+2?"}]})")),
            "<|start|>user<|message|>1+1?<|end|><|start|>assistant<|channel|>final<|message|>2<|end|>"
            "<|start|>user<|message|>2+2?<|end|><|start|>assistant");
}

std::string chat_refusal(const std::string& chat) {
  return error_of([&] { to_conversation(chat_from_json(parse_json(chat, "chat"))); });
}

TEST(Chat, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(
      chat_refusal(R"({"messages": [{"role": "tool", "content": "x"}]})"),
      "messages[0] is a tool result, but no earlier call is unanswered; add the assistant's call before it");
  EXPECT_EQ(chat_refusal(R"({"messages": [{"role": "tool", "tool_call_id": "c7", "content": "x"}]})"),
            "messages[0] is a tool result, but no earlier call with id 'c7' is unanswered; add the "
            "assistant's call before it");
  EXPECT_EQ(chat_refusal(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
            "request.messages[0].content[0].type must be \"text\": the model reads only text, not "
            "\"image_url\"");
  EXPECT_EQ(chat_refusal(R"({"messages": [], "reasoning_effort": "none"})"),
            "request.reasoning_effort must be low, medium or high, not \"none\"");
  EXPECT_EQ(chat_refusal(R"({"messages": [], "tools": [{"type": "retrieval"}]})"),
            "request.tools[0].type must be \"function\", not \"retrieval\"");
}

Message message_on(std::optional<std::string> channel, std::optional<std::string> recipient) {
  Message message;
  message.channel = std::move(channel);
  message.recipient = std::move(recipient);
  return message;
}

TEST(Chat, WhatTheModelSaysIsThoughtAnswerOrCall) {
  EXPECT_EQ(part_of(message_on("analysis", {})), AnswerPart::kReasoning);
  EXPECT_EQ(part_of(message_on("final", {})), AnswerPart::kAnswer);
  EXPECT_EQ(part_of(message_on("commentary", {})), AnswerPart::kAnswer);  // a preamble, meant for the user
  EXPECT_EQ(part_of(message_on({}, {})), AnswerPart::kAnswer);            // the model left out the channel
  EXPECT_EQ(part_of(message_on("commentary", "functions.f")), AnswerPart::kCall);
  EXPECT_EQ(part_of(message_on("analysis", "python")), AnswerPart::kCall);
  EXPECT_EQ(part_of(message_on("final", "user")), AnswerPart::kAnswer);
}

TEST(Chat, AConversationOfWordsBecomesTheChatThatItWasMadeOf) {
  const Chat chat = chat_from_json(parse_json(R"({"messages": [
      {"role": "user", "content": "One?"}, {"role": "assistant", "reasoning": "Hm.", "content": "One."},
      {"role": "user", "content": "Two?"}, {"role": "assistant", "content": "Two."},
      {"role": "user", "content": "Three?"}],
      "developer": "Count.", "date": "2025-06-28", "level": "high", "model_identity": "You are nibble."})",
                                              "chat"));
  const Conversation conversation = to_conversation(chat);
  const Chat back = to_chat(conversation);
  ASSERT_EQ(back.messages.size(), 5u);
  EXPECT_EQ(back.messages[1].reasoning, "Hm.");
  EXPECT_EQ(back.messages[1].text, "One.");
  EXPECT_EQ(back.messages[3].reasoning, "");
  EXPECT_EQ(back.instructions, "Count.");
  EXPECT_EQ(back.reasoning_effort, ReasoningEffort::kHigh);
  EXPECT_EQ(to_json(to_conversation(back)), to_json(conversation));
}

TEST(Chat, AConversationWithToolsIsNoneOfWords) {
  for (const char* chat : {R"({"messages": [{"role": "user", "content": "Time?"},
                         {"role": "assistant", "tool_calls": [{"function": {"name": "now", "arguments": "{}"}}]}]})",
                           R"({"messages": [{"role": "user", "content": "Time?"}],
            "tools": [{"type": "function", "function": {"name": "now", "description": "the time"}}]})"}) {
    const Conversation conversation = to_conversation(chat_from_json(parse_json(chat, "chat")));
    EXPECT_NE(error_of([&] { to_chat(conversation); }).find("] uses a tool"), std::string::npos);
  }
}

}  // namespace
}  // namespace nibble::harmony
