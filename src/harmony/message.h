// The messages of a harmony conversation, as plain data. How they are written: render.cpp, whose definition is the
// official renderer (openai-harmony, Rust). How they are read: parse.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::harmony {

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool };
enum class ReasoningEffort { kLow, kMedium, kHigh };

std::string_view name(Role role);                    // "assistant"
std::string_view name(ReasoningEffort effort);       // "medium"
std::optional<Role> role_of(std::string_view name);  // nothing if there is no such role
std::optional<ReasoningEffort> reasoning_effort_of(
    std::string_view name);  // nothing if there is no such level

struct Tool {
  std::string name;
  std::string description;
  std::optional<std::string> parameters;  // JSON schema as text: the order of its properties is kept
};

struct ToolNamespace {
  std::string name;
  std::optional<std::string> description;
  std::vector<Tool> tools;  // none: the description is all there is ("python")
};

// What the system message says. The defaults are the official library's.
struct SystemContent {
  std::optional<std::string> model_identity{"You are ChatGPT, a large language model trained by OpenAI."};
  std::optional<std::string> knowledge_cutoff{"2024-06"};
  std::optional<std::string> conversation_start_date;  // "2025-06-28"
  std::optional<ReasoningEffort> reasoning_effort{ReasoningEffort::kMedium};
  std::vector<ToolNamespace> tools;  // builtin ones
  std::vector<std::string> valid_channels{"analysis", "commentary", "final"};
  bool channel_required{true};
};

struct DeveloperContent {
  std::optional<std::string> instructions;
  std::vector<ToolNamespace> tools;  // functions
};

// One message. Exactly one kind of content: system and developer content where the role asks for it (a message of these
// roles may also carry plain text), else text.
struct Message {
  Role role{Role::kUser};
  std::optional<std::string> author_name;   // of a tool: "functions.get_time"; of others, after a colon
  std::optional<std::string> recipient;     // "functions.get_time", "assistant"
  std::optional<std::string> channel;       // "analysis", "commentary", "final"
  std::optional<std::string> content_type;  // "<|constrain|>json", "code"
  std::string text;
  std::optional<SystemContent> system;
  std::optional<DeveloperContent> developer;
};

struct Conversation {
  std::vector<Message> messages;
};

}  // namespace nibble::harmony
