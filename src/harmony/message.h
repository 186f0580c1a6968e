// The messages of a harmony conversation, as plain data. render.cpp writes and parse.cpp reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::harmony {

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool };
enum class ReasoningEffort { kLow, kMedium, kHigh };

std::string_view name(Role role);               // "assistant", for example
std::string_view name(ReasoningEffort effort);  // "medium", for example
std::optional<Role> role_of(std::string_view name);
std::optional<ReasoningEffort> reasoning_effort_of(std::string_view name);

struct Tool {
  std::string name;
  std::string description;
  std::optional<std::string> parameters;  // a JSON schema as text; the order of its properties matters
};

struct ToolNamespace {
  std::string name;
  std::optional<std::string> description;
  std::vector<Tool> tools;  // if empty, only the description is rendered ("python")
};

// Defaults are those of the official library.
struct SystemContent {
  std::optional<std::string> model_identity{"You are ChatGPT, a large language model trained by OpenAI."};
  std::optional<std::string> knowledge_cutoff{"2024-06"};
  std::optional<std::string> conversation_start_date;  // "2025-06-28"
  std::optional<ReasoningEffort> reasoning_effort{ReasoningEffort::kMedium};
  std::vector<ToolNamespace> tools;  // built-in tools
  std::vector<std::string> valid_channels{"analysis", "commentary", "final"};
  bool channel_required{true};
};

// The form that the final answer must have, as described in the prompt.
struct ResponseFormat {
  std::string name, description;  // the description may be empty
  std::string schema;             // JSON text
};

struct DeveloperContent {
  std::optional<std::string> instructions;
  std::vector<ToolNamespace> tools;  // functions
  std::optional<ResponseFormat> response_format{};
};

// A message's content is in `text`, or in `system` or `developer` for these two roles.
struct Message {
  Role role{Role::kUser};
  std::optional<std::string> author_name;   // the tool "functions.get_time", or NAME of "user:NAME"
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
