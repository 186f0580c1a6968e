#include "server/api/response_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace nibble::server {
namespace {

using harmony::ChatMessage;
using harmony::Field;
using harmony::Json;
using harmony::Role;

constexpr const char* kTextParts{"a text or a list of text parts"};

// A text, or the joined texts of a list of parts.
std::string text_from(const Field& field) {
  if (field.value().is_string()) return field.string();
  if (!field.value().is_array()) field.refuse(kTextParts);
  std::string text;
  for (const Field& part : field.elements()) {
    constexpr const char* kTypes{"input_text, output_text, reasoning_text or summary_text"};
    const std::string type = part.need("type", kTypes).string();
    if (type != "input_text" && type != "output_text" && type != "reasoning_text" && type != "summary_text")
      part.find("type")->refuse(fmt::format("{}: the model reads nothing else", kTypes));
    text += part.need_string("text");
  }
  return text;
}

// The last message if it is the assistant's and `may_join` allows to add to it, else a new message of the assistant.
template <typename MayJoin>
ChatMessage& assistant(std::vector<ChatMessage>& messages, MayJoin may_join) {
  if (messages.empty() || messages.back().role != Role::kAssistant || !may_join(messages.back())) {
    messages.emplace_back();
    messages.back().role = Role::kAssistant;
  }
  return messages.back();
}

void add_message(const Field& item, std::vector<ChatMessage>& messages) {
  const Field role = item.need("role", "a role");
  const auto known = role.value().is_string() ? harmony::role_of(role.string()) : std::nullopt;
  if (!known || known == Role::kTool) role.refuse("system, developer, user or assistant");
  std::string text = text_from(item.need("content", kTextParts));
  if (known != Role::kAssistant) {
    ChatMessage& message = messages.emplace_back();
    message.role = *known;
    message.text = std::move(text);
    return;
  }
  assistant(messages, [](const ChatMessage& last) {
    return last.text.empty() && last.tool_calls.empty();
  }).text = std::move(text);
}

void add_reasoning(const Field& item, std::vector<ChatMessage>& messages) {
  // Other servers may send only a summary of the reasoning.
  const auto content = item.find("content");
  const auto summary = item.find("summary");
  std::string text = content ? text_from(*content) : summary ? text_from(*summary) : "";
  std::string& reasoning = assistant(messages, [](const ChatMessage& last) {
                             return last.text.empty() && last.tool_calls.empty();
                           }).reasoning;
  reasoning += (reasoning.empty() || text.empty() ? "" : "\n\n") + text;
}

void add_call(const Field& item, std::vector<ChatMessage>& messages) {
  assistant(messages, [](const ChatMessage&) { return true; })
      .tool_calls.push_back({.id = item.need_string("call_id"),
                             .name = item.need_string("name"),
                             .arguments = item.need_string("arguments")});
}

void add_output(const Field& item, std::vector<ChatMessage>& messages) {
  ChatMessage& message = messages.emplace_back();
  message.role = Role::kTool;
  message.tool_call_id = item.need_string("call_id");
  message.text = text_from(item.need("output", kTextParts));
}

struct ItemRow {
  std::string_view type;
  void (*add)(const Field& item, std::vector<ChatMessage>& messages);
};
constexpr ItemRow kItems[] = {
    {"message", &add_message},
    {"reasoning", &add_reasoning},
    {"function_call", &add_call},
    {"function_call_output", &add_output},
};

// Refuses parameters that would change the answer and are not implemented; the value that changes nothing is accepted.
void refuse_unsupported_fields(const Field& request) {
  for (const char* key : {"conversation", "prompt"})
    if (const auto field = request.find(key))
      field->refuse("absent: the conversation is input and previous_response_id");
  if (read_boolean(request, "background")) request.find("background")->refuse("false");
  if (const auto truncation = request.find("truncation"); truncation && truncation->value() != "disabled")
    truncation->refuse("\"disabled\": nothing is left out of an input");
  if (const auto text = request.find("text"))
    if (const auto format = text->find("format"))
      if (const auto type = format->need("type", "\"text\""); type.value() != "text")
        type.refuse("\"text\": constrained output is not available");
}

}  // namespace

std::vector<ChatMessage> read_items(const Field& items) {
  constexpr const char* kTypes{"message, reasoning, function_call or function_call_output"};
  std::vector<ChatMessage> messages;
  for (const Field& item : items.elements()) {
    const auto type = item.find("type");  // absent: a message
    const std::string name = type ? type->string() : "message";
    const auto found = std::find_if(std::begin(kItems), std::end(kItems),
                                    [&](const ItemRow& row) { return row.type == name; });
    if (found == std::end(kItems)) type->refuse(kTypes);
    found->add(item, messages);
  }
  return messages;
}

ResponseRequest read_response_request(std::string_view body) {
  ResponseRequest read;
  read.body = harmony::parse_json(body, "the body");
  const Field request(read.body, "request");
  refuse_unsupported_fields(request);
  read.params = read_generation_params(Api::kResponses, request);
  if (read.params.num_choices != 1) request.find("n")->refuse("1: a response is one answer");
  if (const auto most = request.find("max_output_tokens"))
    read.params.max_tokens = static_cast<int>(read_whole_number(*most, 1, INT_MAX));
  if (const auto include = request.find("include"))
    for (const Field& what : include->elements())
      if (what.value() == "message.output_text.logprobs") read.params.sample.num_logprobs = 0;
  if (const auto top = request.find("top_logprobs"); top && top->value() != 0)
    read.params.sample.num_logprobs = static_cast<int>(read_whole_number(*top, 0, kMaxLogprobs));

  const Field input = request.need("input", "a text or a list of items");
  if (input.value().is_string()) {
    read.chat.messages.emplace_back();
    read.chat.messages.back().text = input.string();
  } else {
    if (!input.value().is_array() || input.value().empty())
      input.refuse("a text or a list of items, not empty");
    read.chat.messages = read_items(input);
  }
  read.chat.instructions = request.find_string("instructions").value_or("");
  const bool with_tools = offers_tools(request);
  if (const auto tools = request.find("tools"))
    for (const Field& tool : tools->elements()) {
      const Field type = tool.need("type", "\"function\"");
      if (type.value() != "function") type.refuse("\"function\": there are no built-in tools here");
      harmony::Tool offered = harmony::tool_from_function(tool);
      if (with_tools) read.chat.tools.push_back(std::move(offered));
    }
  if (const auto reasoning = request.find("reasoning"))
    if (const auto effort = reasoning->find("effort"))
      read.chat.reasoning_effort = read_effort(*effort, read.params.ignored);
  read.previous_id = request.find_string("previous_response_id");
  if (const auto store = request.find("store")) read.store = store->boolean();
  if (const auto metadata = request.find("metadata"); metadata && !metadata->value().is_object())
    metadata->refuse("an object");
  read.body.erase("input");  // which is in read.chat
  return read;
}

}  // namespace nibble::server
