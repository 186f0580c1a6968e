// Converts conversations from the form of chat APIs to harmony. A chat's system message becomes harmony's developer message,
// an assistant message becomes up to three kinds (reasoning, text, calls), and a tool's result becomes the tool's message.
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
  std::string arguments;  // JSON as text, passed on as it is
  std::string space{"functions"};
};

struct ChatMessage {
  Role role{Role::kUser};
  std::string text;
  std::string reasoning;             // only if the role is assistant
  std::vector<ToolCall> tool_calls;  // likewise
  bool is_preamble{false};           // likewise: the text is said before calls, also where none follow
  // Only if the role is tool: the call that it answers, by its id or the function's name. If both are absent it answers the oldest call
  // without an answer.
  std::optional<std::string> tool_call_id;
  std::optional<std::string> tool_name;
};

struct Chat {
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools;                // the functions
  std::vector<ToolNamespace> namespaces;  // others beside "functions"
  std::string instructions;               // put before those of the messages
  std::optional<ResponseFormat> response_format{};
  ReasoningEffort reasoning_effort{ReasoningEffort::kMedium};
  std::optional<std::string> date;            // "2025-06-28"
  std::optional<std::string> model_identity;  // absent: SystemContent's default
};

// Throws InputError if a tool's message answers no call.
Conversation to_conversation(const Chat& chat);

std::string today();  // the local date in the form of Chat::date

// The way back, for a conversation of words: an assistant's thoughts and words are one message again. Throws InputError where it
// has a tool, or a call of one.
Chat to_chat(const Conversation& conversation);

// Reads a message in the form of OpenAI's Chat Completions, older ones included (function_call, the role function), or of Ollama's API.
// Arguments of calls may be an object; parts.h has the forms of content and reasoning. Throws InputError.
ChatMessage chat_message_from_json(const Field& message);

// Reads {"messages": [...], "tools": [...], "developer": "...", "date": "...", "level": "low"}; the effort may also be called
// reasoning_effort. Other members are ignored. Throws InputError.
Chat chat_from_json(const Json& value);

// A call of a tool that takes one text has it as the argument "input".
std::string input_as_arguments(const std::string& input);

// Reads {"name": ..., "description": ..., "parameters": {...}}. Throws InputError.
Tool tool_from_function(const Field& function);

// Names of tools and namespaces stand in headers, where a blank would begin another field: 1 to 64 letters, digits, "_", "-", ".".
bool is_tool_name(std::string_view name);
std::string need_tool_name(const Field& owner, const char* key);  // throws InputError

// The part of a chat's answer that a message of the assistant belongs to: reasoning, a tool call, or else the answer (on
// final, on commentary before a call, or where the model left out the channel).
enum class Part { kReasoning, kAnswer, kCall };
Part part_of(const Message& message);

}  // namespace nibble::harmony
