#include "server/api/anthropic_request.h"

#include <algorithm>
#include <utility>

#include "core/text/json.h"
#include "harmony/parts.h"
#include "server/api/reasoning_params.h"

namespace nibble::server {
namespace {

using harmony::ChatMessage;
using harmony::Role;

constexpr const char* kBlocks{"a string or a list of blocks"};

void add_paragraph(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) text += "\n\n";
  text += more;
}

constexpr std::string_view kBlockTypes{"text, thinking, tool_use, tool_result or search_result"};

void add_tool_result(const Field& block, std::vector<ChatMessage>& messages) {
  ChatMessage& result = messages.emplace_back();
  result.role = Role::kTool;
  result.tool_call_id = block.need_string("tool_use_id");
  if (const auto content = block.find("content"))
    result.text =
        harmony::content_text(*content, {.is_result = true, .separator = "\n\n", .accepted = kBlockTypes});
  if (const auto fault = block.find("is_error"); fault && fault->boolean()) result.text.insert(0, "Error: ");
}

// Adds the summary that replaces earlier messages. Without content, the server failed to write one.
void add_summary(const Field& block, ChatMessage& said) {
  const auto summary = block.find("content");
  if (!summary) return block.leave_out("compaction");
  block.skip({"signature", "encrypted_content"});  // only the server that wrote the summary can read them
  add_paragraph(said.text, summary->string());
}

// Adds a content block to the message `said`, or, if it is a tool result, to `messages` as its own message.
void add_block(const Field& block, ChatMessage& said, std::vector<ChatMessage>& messages) {
  const std::string type = block.need("type", kBlockTypes).string();
  if (type == "thinking") {
    add_paragraph(said.reasoning, block.need_string("thinking"));
  } else if (type == "compaction") {
    add_summary(block, said);
  } else if (type == "redacted_thinking") {  // encrypted; only the server that sent it can read it
    block.leave_out(type);
  } else if (type == "tool_use") {
    const auto input = block.find("input");
    said.tool_calls.push_back({.id = block.need_string("id"),
                               .name = harmony::need_tool_name(block, "name"),
                               .arguments = input ? harmony::json_line(input->value()) : "{}"});
  } else if (type == "tool_result") {
    add_tool_result(block, messages);
  } else if (type == "text" || type == "search_result" || type == "document" || type == "image") {
    add_paragraph(said.text, harmony::part_text(block, {.separator = "\n\n", .accepted = kBlockTypes}));
  } else {
    block.leave_out(type);
  }
}

void add_anthropic_message(const Field& field, std::vector<ChatMessage>& messages) {
  const Field role = field.need("role", "user, assistant or system");
  ChatMessage said;
  if (role.value() == "assistant")
    said.role = Role::kAssistant;
  else if (role.value() == "system")
    said.role = Role::kDeveloper;
  else if (role.value() != "user")
    role.refuse("user, assistant or system");
  const Field content = field.need("content", kBlocks);
  const size_t num_before = messages.size();
  if (content.value().is_string())
    said.text = content.string();
  else
    for (const Field& block : content.elements()) add_block(block, said, messages);
  // Drop a user message that held only tool results: each result has become a message of its own.
  if (said.role == Role::kUser && said.text.empty() && messages.size() > num_before) return;
  messages.push_back(std::move(said));
}

std::string system_from(const Field& system) {
  if (system.value().is_string()) return system.string();
  std::string text;
  for (const Field& block : system.elements()) {
    block.skip({"type"});
    const std::string part = block.need_string("text");
    if (!part.starts_with("x-anthropic-billing-header:")) add_paragraph(text, part);
  }
  return text;
}

void add_anthropic_tool(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  const std::string type = tool.find_string("type").value_or("custom");
  if (type != "custom") {
    tool.leave_out(type);
    return;
  }
  Json function{{"name", harmony::need_tool_name(tool, "name")}};
  if (const auto description = tool.find("description")) function["description"] = description->value();
  if (const auto schema = tool.find("input_schema")) function["parameters"] = schema->value();
  if (const auto strict = tool.find("strict")) function["strict"] = strict->value();
  add_function(Field(function, tool.place()), tools, ignored);
}

void read_anthropic_tools(const Field& request, ChatRequest& read) {
  ToolSet tools;
  if (const auto list = request.find("tools"))
    for (const Field& tool : list->elements()) add_anthropic_tool(tool, tools, read.params.ignored);
  if (const auto choice = request.find("tool_choice")) {
    constexpr const char* kTypes{"\"auto\", \"none\", \"any\" or \"tool\""};
    const Field type = choice->need("type", kTypes);
    // No effect: the model makes only one call at a time.
    choice->skip({"disable_parallel_tool_use"});
    if (type.value() == "none")
      tools.allow_only({});
    else if (type.value() == "any")
      force_call(*choice, std::nullopt, tools, read.params);
    else if (type.value() == "tool")
      force_call(*choice, choice->need_string("name"), tools, read.params);
    else if (type.value() != "auto")
      type.refuse(kTypes);
  }
  read.chat.tools = std::move(tools.functions);
  read.offered = std::move(tools.offered);
}

bool read_thinking(const Field& request, ChatRequest& read) {
  bool is_shown = false;
  if (const auto thinking = request.find("thinking")) {
    constexpr const char* kTypes{"enabled, adaptive, disabled or between_tools"};
    const Field type = thinking->need("type", kTypes);
    const std::string name = type.string();
    if (name != "enabled" && name != "adaptive" && name != "disabled" && name != "between_tools")
      type.refuse(kTypes);
    is_shown = name != "disabled";
    if (const auto budget = thinking->find("budget_tokens")) {
      if (name == "enabled")
        read.params.max_reasoning_tokens = read_reasoning_budget(*budget);
      else
        read.params.ignored.add("thinking.budget_tokens");
    }
    if (!is_shown) turn_off_reasoning(*thinking, read.chat, read.params.ignored);
  }
  if (const auto config = request.find("output_config"))
    if (const auto effort = config->find("effort"))
      read.chat.reasoning_effort = read_effort(*effort, read.params.ignored);
  return is_shown;
}

}  // namespace

AnthropicRequest read_anthropic_request(std::string_view body, bool needs_max_tokens,
                                        const RequestDefaults& defaults) {
  const Json json = harmony::parse_json(body, "the body");
  harmony::ReadRecord record;
  const Field request(json, "request", &record);
  AnthropicRequest read;
  GenerationParams& params = read.chat.params;
  params = read_generation_params(Api::kAnthropic, request, defaults);
  read.chat.chat.reasoning_effort = defaults.effort;
  params.num_choices = 1;
  if (needs_max_tokens) request.need("max_tokens", "a whole number of at least 1");
  params.stop.strings = read_texts(request, "stop_sequences", kMaxStopStrings);
  if (const auto system = request.find("system")) read.chat.chat.instructions = system_from(*system);
  const Field messages = request.need("messages", "a list of at least one message");
  for (const Field& message : messages.elements()) add_anthropic_message(message, read.chat.chat.messages);
  if (read.chat.chat.messages.empty()) messages.refuse("a list of at least one message");
  read_anthropic_tools(request, read.chat);
  read.shows_thinking = read_thinking(request, read.chat);
  // If the last message is the assistant's, the answer continues it.
  const ChatMessage& last = read.chat.chat.messages.back();
  if (last.role == Role::kAssistant && last.tool_calls.empty()) {
    read.chat.continues_final = true;
    read.chat.adds_generation_prompt = false;
  }
  note_unread(Api::kAnthropic, request, record, params.ignored);
  return read;
}

}  // namespace nibble::server
