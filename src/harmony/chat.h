// Conversations as chat APIs state them, made into harmony: what is "system" there is the developer message here, one
// assistant message becomes its thoughts, its words and its calls, and a result is the tool's own message.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harmony/field.h"
#include "harmony/json_text.h"
#include "harmony/message.h"

namespace nibble::harmony {

struct ToolCall {
  std::string id;         // may be empty
  std::string name;       // without "functions."
  std::string arguments;  // JSON as text, passed on as it is
};

struct ChatMessage {
  Role role{Role::kUser};
  std::string text;
  std::string reasoning;             // of the assistant
  std::vector<ToolCall> tool_calls;  // of the assistant
  std::optional<std::string>
      tool_call_id;  // of a tool: the call it answers; none: the oldest one without an answer
};

struct Chat {
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools;
  std::string instructions;  // before those of the messages
  ReasoningEffort reasoning_effort{ReasoningEffort::kMedium};
  std::optional<std::string> date;            // "2025-06-28"
  std::optional<std::string> model_identity;  // else the default
};

// Throws InputError where a tool's message answers no call.
Conversation to_conversation(const Chat& chat);

std::string today();  // in local time, as Chat::date has it

// Reads {"messages": [...], "tools": [...], "developer": "...", "date": "...", "level": "low"} in the form of OpenAI's
// Chat Completions; the effort may also be called reasoning_effort, and a message's reasoning also thinking or
// reasoning_content. Arguments may be an object. Other members are not looked at. Throws InputError.
Chat chat_from_json(const Json& value);

// Reads {"name": ..., "description": ..., "parameters": {...}}. Throws InputError.
Tool tool_from_function(const Field& function);

// What a chat shows of the assistant's message: its thoughts, its words (on final, or before a call on commentary, or
// where the model forgot the channel), or a call of a tool.
enum class Part { kReasoning, kAnswer, kCall };
Part part_of(const Message& message);

}  // namespace nibble::harmony
