#include "harmony/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/control_tokens.h"
#include "harmony/parts.h"
#include "harmony/shown_schema.h"

namespace nibble::harmony {

namespace {

bool gives_instructions(const ChatMessage& message) {
  return message.role == Role::kSystem || message.role == Role::kDeveloper;
}

Message developer_message(std::string instructions, const std::vector<Tool>& tools = {},
                          const std::vector<ToolNamespace>& namespaces = {}) {
  Message message;
  message.role = Role::kDeveloper;
  message.developer.emplace();
  if (!instructions.empty()) message.developer->instructions = std::move(instructions);
  if (!tools.empty())
    message.developer->tools.push_back({.name = "functions", .description = {}, .tools = tools});
  auto& all = message.developer->tools;
  all.insert(all.end(), namespaces.begin(), namespaces.end());
  return message;
}

Message assistant_message(const char* channel, std::string text) {
  Message message;
  message.role = Role::kAssistant;
  message.channel = channel;
  message.text = std::move(text);
  return message;
}

// Appends reasoning, text and calls, in the order in which the model generates them.
void add_assistant(const ChatMessage& said, std::vector<Message>& out) {
  const bool has_calls = !said.tool_calls.empty();
  if (!said.reasoning.empty()) out.push_back(assistant_message("analysis", said.reasoning));
  if (!said.text.empty() || (said.reasoning.empty() && !has_calls))
    out.push_back(assistant_message(has_calls || said.is_preamble ? "commentary" : "final", said.text));
  for (const ToolCall& call : said.tool_calls) {
    Message message = assistant_message("commentary", call.arguments);
    message.recipient = call.space + "." + call.name;
    message.content_type = std::string(kConstrain) + "json";
    out.push_back(std::move(message));
  }
}

Message tool_message(const ToolCall& call, const std::string& output) {
  Message message;
  message.role = Role::kTool;
  message.author_name = call.space + "." + call.name;
  message.recipient = "assistant";
  message.channel = "commentary";
  message.text = output;
  return message;
}

// Removes from `open_calls` the call that a tool result answers, and returns it.
ToolCall take_call(std::vector<ToolCall>& open_calls, const ChatMessage& result, size_t index) {
  const auto found = std::ranges::find_if(open_calls, [&](const ToolCall& call) {
    return (!result.tool_call_id || call.id == *result.tool_call_id) &&
           (!result.tool_name || call.name == *result.tool_name);
  });
  if (found == open_calls.end())
    throw InputError(
        "messages[{}] is a tool result, but no earlier call {}; add the assistant's call before it", index,
        result.tool_call_id ? fmt::format("with id '{}' is unanswered", *result.tool_call_id)
        : result.tool_name  ? fmt::format("of '{}' is unanswered", *result.tool_name)
                            : "is unanswered");
  ToolCall call = std::move(*found);
  open_calls.erase(found);
  return call;
}

void read_system(const SystemContent& system, Chat& chat) {
  chat.reasoning_effort = system.reasoning_effort.value_or(chat.reasoning_effort);
  chat.date = system.conversation_start_date;
  chat.model_identity = system.model_identity;
}

void add_part(const Message& message, Chat& chat) {
  const bool goes_on = !chat.messages.empty() && chat.messages.back().role == Role::kAssistant &&
                       chat.messages.back().text.empty();
  if (!goes_on) chat.messages.emplace_back().role = Role::kAssistant;
  ChatMessage& said = chat.messages.back();
  (part_of(message) == AnswerPart::kReasoning ? said.reasoning : said.text) += message.text;
}

constexpr const char* kTextParts{"a string or a list of text parts"};

ToolCall function_call_from(const Field& function) {
  // An object becomes JSON text in the spacing of gpt-oss's chat template. Clients leave out the arguments of
  // calls that have none.
  std::string text{"{}"};
  if (const auto arguments = function.find("arguments"))
    text = arguments->value().is_string() ? arguments->string()
                                          : json_line(arguments->value(), JsonSpacing::kAfterCommas);
  return {.id = "", .name = need_tool_name(function, "name"), .arguments = std::move(text)};
}

ToolCall call_from(const Field& field) {
  const std::string id = field.find_string("id").value_or("");
  field.skip({"type"});
  if (const auto custom = field.find("custom"))
    return {.id = id,
            .name = need_tool_name(*custom, "name"),
            .arguments = input_as_arguments(custom->need_string("input"))};
  ToolCall call = function_call_from(field.need("function", "an object with name and arguments"));
  call.id = id;
  return call;
}

// Reads the images that Ollama's messages have next to their content.
void read_images(const Field& field, ChatMessage& message) {
  const auto images = field.find("images");
  if (!images || images->value().empty()) return;
  if (message.role != Role::kTool) images->refuse("empty: the model reads only text");
  images->leave_out();
  for (size_t i = 0; i < images->elements().size(); ++i) message.text += kImageNote;
}

}  // namespace

ChatMessage chat_message_from_json(const Field& field) {
  const Field role = field.need("role", "a role");
  const bool is_function = role.value() == "function";  // the older API's name of role tool
  const auto known = is_function                ? Role::kTool
                     : role.value().is_string() ? role_of(role.string())
                                                : std::nullopt;
  if (!known) role.refuse("system, developer, user, assistant, tool or function");
  ChatMessage message;
  message.role = *known;
  if (is_function) message.tool_name = need_tool_name(field, "name");
  // a tool result of Ollama has the tool's name instead of the call's id
  else if (known == Role::kTool && field.find("tool_name"))
    message.tool_name = need_tool_name(field, "tool_name");
  // The name of a tool result is checked, but not used: the answered call has the same name.
  if (known == Role::kTool && field.find("name")) need_tool_name(field, "name");
  if (known == Role::kAssistant) message.reasoning = message_reasoning(field);
  if (const auto calls = field.find("tool_calls"))
    for (const Field& call : calls->elements()) message.tool_calls.push_back(call_from(call));
  if (const auto call = field.find("function_call")) message.tool_calls.push_back(function_call_from(*call));
  message.tool_call_id = field.find_string("tool_call_id");
  // Only an assistant message may lack content: it may have calls, be a refusal, or be empty.
  if (const auto content = field.find("content"))
    message.text = content_text(*content, {.is_result = known == Role::kTool, .accepted = "\"text\""});
  else if (message.role != Role::kAssistant)
    field.need("content", kTextParts);
  if (message.text.empty()) message.text = field.find_string("refusal").value_or("");
  read_images(field, message);
  return message;
}

namespace {

Tool chat_tool_from(const Field& field) {
  const Field type = field.need("type", "\"function\"");
  if (type.value() != "function") type.refuse("\"function\"");
  return tool_from_function(field.need("function", "an object with name, description and parameters"));
}

}  // namespace

std::string input_as_arguments(const std::string& input) { return json_line({{"input", input}}); }

Tool tool_from_function(const Field& function) {
  Tool tool{.name = need_tool_name(function, "name"),
            .description = function.find_string("description").value_or(""),
            .parameters = std::nullopt};
  if (const auto parameters = function.find("parameters")) {
    if (!parameters->value().is_object() && !parameters->value().is_boolean())
      parameters->refuse("a JSON schema");
    if (const auto shown = shown_schema(parameters->value())) tool.parameters = json_line(*shown);
  }
  return tool;
}

bool is_tool_name(std::string_view name) {
  constexpr size_t kMaxLength{128};  // of Anthropic; OpenAI allows 64
  return !name.empty() && name.size() <= kMaxLength && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::string need_tool_name(const Field& owner, const char* key) {
  constexpr const char* kAccepted{"a name of 1 to 128 letters (A to Z), digits, '_', '-' and '.'"};
  const Field name = owner.need(key, kAccepted);
  if (!name.value().is_string() || !is_tool_name(name.string())) name.refuse(kAccepted);
  return name.string();
}

Conversation to_conversation(const Chat& chat) {
  std::vector<Message> out(1);
  out[0].role = Role::kSystem;
  SystemContent& system = out[0].system.emplace();
  system.reasoning_effort = chat.reasoning_effort;
  system.conversation_start_date = chat.date;
  if (chat.model_identity) system.model_identity = chat.model_identity;

  // Make one developer message of all instructions before the first other message. This message also has the
  // tools.
  const auto first_turn = std::ranges::find_if_not(chat.messages, gives_instructions);
  std::string instructions = chat.instructions;
  for (auto message = chat.messages.begin(); message != first_turn; ++message)
    instructions += (instructions.empty() ? "" : "\n\n") + message->text;
  if (!instructions.empty() || !chat.tools.empty() || !chat.namespaces.empty() || chat.response_format) {
    out.push_back(developer_message(std::move(instructions), chat.tools, chat.namespaces));
    out.back().developer->response_format = chat.response_format;
  }

  std::vector<ToolCall> open_calls;
  for (auto message = first_turn; message != chat.messages.end(); ++message) {
    if (gives_instructions(*message)) {
      out.push_back(developer_message(message->text));
    } else if (message->role == Role::kUser) {
      out.emplace_back();  // the role is user by default
      out.back().text = message->text;
    } else if (message->role == Role::kAssistant) {
      add_assistant(*message, out);
      open_calls.insert(open_calls.end(), message->tool_calls.begin(), message->tool_calls.end());
    } else {
      const auto index = static_cast<size_t>(message - chat.messages.begin());
      out.push_back(tool_message(take_call(open_calls, *message, index), message->text));
    }
  }
  return {std::move(out)};
}

Chat to_chat(const Conversation& conversation) {
  Chat chat;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    const bool has_tools = (message.system && !message.system->tools.empty()) ||
                           (message.developer && !message.developer->tools.empty());
    if (has_tools || message.role == Role::kTool || part_of(message) == AnswerPart::kCall)
      throw InputError("messages[{}] uses a tool; only conversations without tools are accepted", i);
    if (message.system) {
      read_system(*message.system, chat);
    } else if (message.developer) {
      chat.instructions = message.developer->instructions.value_or("");
    } else if (message.role == Role::kAssistant) {
      add_part(message, chat);
    } else {
      ChatMessage& said = chat.messages.emplace_back();
      said.role = message.role;
      said.text = message.text;
    }
  }
  return chat;
}

Chat chat_from_json(const Json& value) {
  const Field request(value, "request");
  Chat chat;
  for (const Field& message : request.need("messages", "a list of messages").elements())
    chat.messages.push_back(chat_message_from_json(message));
  if (const auto tools = request.find("tools"))
    for (const Field& tool : tools->elements()) chat.tools.push_back(chat_tool_from(tool));
  chat.instructions = request.find_string("developer").value_or("");
  for (const char* key : {"level", "reasoning_effort"}) {
    const auto effort = request.find(key);
    if (!effort) continue;
    const auto known = reasoning_effort_of(effort->string());
    if (!known) effort->refuse("low, medium or high");
    chat.reasoning_effort = *known;
  }
  chat.date = request.find_string("date");
  chat.model_identity = request.find_string("model_identity");
  return chat;
}

AnswerPart part_of(const Message& message) {
  if (message.recipient && *message.recipient != "all" && *message.recipient != "user")
    return AnswerPart::kCall;
  return message.channel == "analysis" ? AnswerPart::kReasoning : AnswerPart::kAnswer;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &local)};
}

}  // namespace nibble::harmony
