#include "server/api/response_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text/json.h"
#include "harmony/json_text.h"
#include "harmony/parts.h"
#include "server/api/sealed_reasoning.h"

namespace nibble::server {
namespace {

using harmony::ChatMessage;
using harmony::Role;

constexpr const char* kTextParts{"a string or a list of text parts"};
constexpr std::string_view kPartTypes{
    "input_text, output_text, text, refusal, reasoning_text or summary_text"};

struct Reader {
  ResponseInput input;
  IgnoredFields& ignored;
};

std::string text_from(const Field& content) {
  return harmony::content_text(content, {.accepted = kPartTypes});
}
std::string output_from(const Field& output) {
  return harmony::content_text(output, {.is_result = true, .accepted = kPartTypes});
}

// Returns the last message if it is the assistant's and may_join() accepts it. Otherwise adds a message of
// the assistant and returns it.
template <typename MayJoin>
ChatMessage& assistant(std::vector<ChatMessage>& messages, MayJoin may_join) {
  if (messages.empty() || messages.back().role != Role::kAssistant || !may_join(messages.back())) {
    messages.emplace_back();
    messages.back().role = Role::kAssistant;
  }
  return messages.back();
}

bool may_take_words(const ChatMessage& last) { return last.text.empty() && last.tool_calls.empty(); }

void add_message(const Field& item, Reader& out) {
  const Field role = item.need("role", "a role");
  const auto known = role.value().is_string() ? harmony::role_of(role.string()) : std::nullopt;
  if (!known || known == Role::kTool) role.refuse("system, developer, user or assistant");
  std::string text = text_from(item.need("content", kTextParts));
  if (known != Role::kAssistant) {
    ChatMessage& message = out.input.messages.emplace_back();
    message.role = *known;
    message.text = std::move(text);
    return;
  }
  ChatMessage& said = assistant(out.input.messages, may_take_words);
  said.text = std::move(text);
  said.is_preamble = item.find_string("phase") == "commentary";
}

void add_agent_message(const Field& item, Reader& out) {
  out.input.messages.emplace_back().text = text_from(item.need("content", kTextParts));
}

// Returns the text in the item's `encrypted_content`; "" if that is absent or another server's.
std::string sealed_text(const Field& item) {
  const auto sealed = item.value().find("encrypted_content");
  if (sealed == item.value().end() || !sealed->is_string()) return "";
  return open_reasoning(sealed->get_ref<const std::string&>()).value_or("");
}

void add_reasoning(const Field& item, Reader& out) {
  // Clients may send back only encrypted_content. Items of other servers may contain only a summary, or only
  // an encrypted form that this server cannot read.
  const auto content = item.find("content");
  const auto summary = item.find("summary");
  std::string text = content ? text_from(*content) : "";
  const std::string summarised = summary ? text_from(*summary) : "";
  if (text.empty()) text = sealed_text(item);
  if (text.empty()) text = summarised;
  if (text.empty()) return;
  item.skip({"encrypted_content"});  // holds the same reasoning as the text
  std::string& reasoning = assistant(out.input.messages, may_take_words).reasoning;
  reasoning += (reasoning.empty() ? "" : "\n\n") + text;
}

void add_call(const Field& item, Reader& out, std::string name, std::string arguments) {
  assistant(out.input.messages, [](const ChatMessage&) { return true; })
      .tool_calls.push_back(
          {.id = item.need_string("call_id"),
           .name = std::move(name),
           .arguments = std::move(arguments),
           .space = item.find("namespace") ? harmony::need_tool_name(item, "namespace") : "functions"});
}
void add_function_call(const Field& item, Reader& out) {
  add_call(item, out, harmony::need_tool_name(item, "name"), item.find_string("arguments").value_or("{}"));
}
void add_custom_call(const Field& item, Reader& out) {
  add_call(item, out, harmony::need_tool_name(item, "name"),
           harmony::input_as_arguments(item.need_string("input")));
}
void add_search_call(const Field& item, Reader& out) {
  item.skip({"execution"});
  add_call(item, out, "tool_search", harmony::json_line(item.need("arguments", "an object").value()));
}
// Converts a local_shell_call into a call of the function "shell", with the argument names of that function
// (tools.cpp).
void add_local_shell_call(const Field& item, Reader& out) {
  const Field action = item.need("action", "an object with a command");
  Json arguments{{"command", action.need("command", "a list of strings").value()}};
  for (const auto& [key, name] :
       {std::pair("working_directory", "workdir"), std::pair("timeout_ms", "timeout_ms")})
    if (const auto value = action.find(key)) arguments[name] = value->value();
  action.skip({"type"});
  if (action.value().value("env", Json()).empty()) action.skip({"env"});
  add_call(item, out, "shell", harmony::json_line(arguments));
}

// Adds a call whose arguments are the members `keys` of item[object].
void add_call_of_members(const Field& item, Reader& out, const char* object, const char* name,
                         std::initializer_list<const char*> keys) {
  const Field given = item.need(object, "an object");
  Json arguments = Json::object();
  for (const char* key : keys)
    if (const auto value = given.find(key)) arguments[key] = value->value();
  add_call(item, out, name, harmony::json_line(arguments));
}
void add_shell_call(const Field& item, Reader& out) {
  item.skip({"environment"});
  add_call_of_members(item, out, "action", "shell", {"commands", "timeout_ms", "max_output_length"});
}
void add_patch_call(const Field& item, Reader& out) {
  add_call_of_members(item, out, "operation", "apply_patch", {"type", "path", "diff"});
}

void add_result(const Field& item, Reader& out, std::string text) {
  ChatMessage& message = out.input.messages.emplace_back();
  message.role = Role::kTool;
  // A result without an id belongs to the oldest call (of this name, if given) that has no result yet.
  message.tool_call_id = item.find_string("call_id");
  const bool is_named = item.find("name").has_value();
  const std::string name = is_named ? harmony::need_tool_name(item, "name") : "";
  if (!message.tool_call_id && is_named) message.tool_name = name;
  message.text = std::move(text);
}
void add_local_shell_output(const Field& item, Reader& out) {  // Some clients send the call's id as "id".
  add_result(item, out, output_from(item.need("output", kTextParts)));
  ChatMessage& result = out.input.messages.back();
  if (!result.tool_call_id) result.tool_call_id = item.find_string("id");
}
// Adds the output of each command, and how the command ended.
void add_shell_output(const Field& item, Reader& out) {
  item.skip({"max_output_length"});
  const Field output = item.need("output", "a list of the commands' outputs");
  if (output.value().is_string()) return add_result(item, out, output.string());
  std::string text;
  for (const Field& one : output.elements()) {
    for (const char* key : {"stdout", "stderr"}) {
      const std::string written = one.find_string(key).value_or("");
      if (!written.empty()) text += written + (written.ends_with('\n') ? "" : "\n");
    }
    const auto outcome = one.find("outcome");
    if (!outcome) continue;
    const auto code = outcome->find("exit_code");
    const std::string end = outcome->find_string("type").value_or("exit");
    text += code ? fmt::format("[exit code {}]\n", code->value().dump()) : fmt::format("[{}]\n", end);
  }
  if (text.ends_with('\n')) text.pop_back();
  add_result(item, out, std::move(text));
}
void add_patch_output(const Field& item, Reader& out) {
  const std::string status = item.find_string("status").value_or("completed");
  const auto output = item.find("output");
  const std::string text = output ? output_from(*output) : "";
  add_result(item, out, text.empty() ? status : status == "failed" ? "Failed: " + text : text);
}
void add_output(const Field& item, Reader& out) {
  add_result(item, out, output_from(item.need("output", kTextParts)));
}
void add_found_tool(const Field& tool, Reader& out) {  // An earlier search may have found the same tool.
  ToolSet found;
  add_response_tool(tool, found, out.ignored);
  out.input.tools.add_new(std::move(found), out.ignored);
}
void add_search_output(const Field& item, Reader& out) {
  item.skip({"execution"});
  std::string names;
  if (const auto tools = item.find("tools"))
    for (const Field& tool : tools->elements()) {
      add_found_tool(tool, out);
      if (const auto name = tool.find_string("name")) names += (names.empty() ? "" : ", ") + *name;
    }
  add_result(item, out, names.empty() ? "No tool was found." : "These tools can be called now: " + names);
}
void add_tools(const Field& item, Reader& out) {
  item.skip({"role"});
  for (const Field& tool : item.need("tools", "a list of tools").elements()) add_found_tool(tool, out);
}

struct ItemRow {
  std::string_view type;
  void (*add)(const Field& item, Reader& out);
};
constexpr ItemRow kItems[] = {
    {"message", &add_message},
    {"agent_message", &add_agent_message},
    {"reasoning", &add_reasoning},
    {"function_call", &add_function_call},
    {"function_call_output", &add_output},
    {"custom_tool_call", &add_custom_call},
    {"custom_tool_call_output", &add_output},
    {"local_shell_call", &add_local_shell_call},
    {"local_shell_call_output", &add_local_shell_output},
    {"shell_call", &add_shell_call},
    {"shell_call_output", &add_shell_output},
    {"apply_patch_call", &add_patch_call},
    {"apply_patch_call_output", &add_patch_output},
    {"tool_search_call", &add_search_call},
    {"tool_search_output", &add_search_output},
    {"additional_tools", &add_tools},
};

}  // namespace

ResponseInput read_items(const Field& items, IgnoredFields& ignored) {
  Reader out{.input = {}, .ignored = ignored};
  for (const Field& item : items.elements()) {
    const std::string type = item.find_string("type").value_or("message");
    const auto found = std::ranges::find(kItems, type, &ItemRow::type);
    if (found != std::end(kItems))
      found->add(item, out);
    else
      item.leave_out(type);
  }
  return std::move(out.input);
}

}  // namespace nibble::server
