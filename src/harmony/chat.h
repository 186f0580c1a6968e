// Converts conversations between the form of chat APIs and harmony. System messages of a chat become harmony
// developer messages; an assistant message becomes up to three kinds of message (reasoning, text, calls); a
// tool result becomes a message of the tool.
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
  bool is_preamble{false};  // role assistant only: the text is a preamble to calls, even if no call follows
  // Role tool only: the call that this result answers, by the call's id or by the function's name. If both
  // are absent, it answers the oldest call that has no result yet.
  std::optional<std::string> tool_call_id;
  std::optional<std::string> tool_name;
};

struct Chat {
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools;                // the functions
  std::vector<ToolNamespace> namespaces;  // namespaces other than "functions"
  std::string instructions;               // placed before the instructions in `messages`
  std::optional<ResponseFormat> response_format{};
  ReasoningEffort reasoning_effort{ReasoningEffort::kMedium};
  std::optional<std::string> date;            // "2025-06-28"
  std::optional<std::string> model_identity;  // absent: the default of SystemContent
};

// Throws InputError if a tool result answers no call.
Conversation to_conversation(const Chat& chat);

std::string today();  // the local date, in the form of Chat::date

// The inverse, for a conversation without tools: an assistant's reasoning and text become one message again.
// Throws InputError if the conversation offers a tool or contains a call or a tool result.
Chat to_chat(const Conversation& conversation);

// Reads a message in the form of OpenAI's Chat Completions, including its older form (function_call, the role
// function), or of Ollama's API. The arguments of a call may be an object. parts.h lists the forms of content
// and reasoning. Throws InputError.
ChatMessage chat_message_from_json(const Field& message);

// Reads {"messages": [...], "tools": [...], "developer": "...", "date": "...", "model_identity": "...",
// "level": "low"}; the reasoning effort may be called "level" or "reasoning_effort". Other members are
// ignored. Throws InputError.
Chat chat_from_json(const Json& value);

// Returns the arguments of a call of a custom tool, which takes one text: {"input": "..."}.
std::string input_as_arguments(const std::string& input);

// Reads {"name": ..., "description": ..., "parameters": {...}}. Throws InputError.
Tool tool_from_function(const Field& function);

// Names of tools and namespaces appear in message headers, where a space would start another field: 1 to 64
// letters, digits, "_", "-", ".".
bool is_tool_name(std::string_view name);
std::string need_tool_name(const Field& owner, const char* key);  // throws InputError

// The part of a chat answer that an assistant message belongs to: reasoning, a tool call, or the answer
// (channel final, channel commentary before a call, or a message whose channel the model left out).
enum class AnswerPart { kReasoning, kAnswer, kCall };
AnswerPart part_of(const Message& message);

}  // namespace nibble::harmony
