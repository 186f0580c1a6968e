// Converts conversations between chat APIs and harmony. A system message becomes a developer message, an
// assistant message up to three messages (reasoning, text, calls), a tool result a message from the tool.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harmony/field.h"
#include "harmony/json_text.h"
#include "harmony/message.h"

namespace nibble::harmony {

struct ToolCall {
  std::string id;         // may be empty
  std::string name;       // without its namespace
  std::string arguments;  // JSON text, passed on unchanged
  std::string space{"functions"};
};

struct ChatMessage {
  Role role{Role::kUser};
  std::string text;
  std::string reasoning;             // role assistant only
  std::vector<ToolCall> tool_calls;  // role assistant only
  bool is_preamble{false};  // role assistant only: tool calls follow the text, even if tool_calls is empty
  // Role tool only: id or function name of the answered call. Without both: the oldest unanswered call.
  std::optional<std::string> tool_call_id;
  std::optional<std::string> tool_name;
};

struct Chat {
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools;                // tools of namespace "functions"
  std::vector<ToolNamespace> namespaces;  // tools of all other namespaces
  std::string instructions;               // come before the instructions in `messages`
  std::optional<ResponseFormat> response_format{};
  ReasoningEffort reasoning_effort{ReasoningEffort::kMedium};
  std::optional<std::string> date;            // "2025-06-28"
  std::optional<std::string> model_identity;  // absent: default of SystemContent
};

// Throws InputError if a tool result answers no call.
Conversation to_conversation(const Chat& chat);

std::string today();  // local date, in the form of Chat::date

// The inverse of to_conversation(), for conversations without tools. Joins an assistant's reasoning and text
// into one message again. Throws InputError if the conversation offers a tool, or contains a call or a tool
// result.
Chat to_chat(const Conversation& conversation);

// Reads a message of OpenAI's Chat Completions (also in its older form: function_call, role function) or of
// Ollama. A call's arguments may be an object; parts.h lists the forms of content. Throws InputError.
ChatMessage chat_message_from_json(const Field& message);

// Reads {"messages": [...], "tools": [...], "developer": "...", "date": "...", "model_identity": "...",
// "level" or "reasoning_effort": "low"} and ignores other members. Throws InputError.
Chat chat_from_json(const Json& value);

// Returns {"input": "..."}: the arguments of a call of a custom tool, which takes a single text.
std::string input_as_arguments(const std::string& input);

// Reads {"name": ..., "description": ..., "parameters": {...}}. Throws InputError.
Tool tool_from_function(const Field& function);

// Whether `name` has 1 to 128 letters, digits, "_", "-" and ".". Others could break a message's header.
bool is_tool_name(std::string_view name);
std::string need_tool_name(const Field& owner, const char* key);  // throws InputError

// The part of a chat answer to which an assistant message belongs. kAnswer: any message that is neither on
// channel analysis nor sent to a tool.
enum class AnswerPart { kReasoning, kAnswer, kCall };
AnswerPart part_of(const Message& message);

}  // namespace nibble::harmony
