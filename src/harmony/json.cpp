#include "harmony/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/field.h"

namespace nibble::harmony {

namespace {

ReasoningEffort effort_from(const Field& field) {
  std::string level = field.string();  // "Low" in the official form, "low" elsewhere
  if (!level.empty() && level[0] >= 'A' && level[0] <= 'Z')
    level[0] = static_cast<char>(level[0] - 'A' + 'a');
  if (const auto effort = reasoning_effort_of(level)) return *effort;
  field.refuse("\"Low\", \"Medium\" or \"High\"");
}

Tool tool_from(const Field& field) {
  field.allow_only({"name", "description", "parameters"});
  Tool tool{.name = field.need_string("name"),
            .description = field.find_string("description").value_or(""),
            .parameters = std::nullopt};
  if (const auto parameters = field.find("parameters")) {
    if (!parameters->value().is_object()) parameters->refuse("a JSON schema, which is an object");
    tool.parameters = json_line(parameters->value());
  }
  return tool;
}

std::vector<ToolNamespace> namespaces_from(const Field& content) {
  std::vector<ToolNamespace> spaces;
  const auto tools = content.find("tools");
  if (!tools) return spaces;
  for (const Field& field : tools->members()) {
    field.allow_only({"name", "description", "tools"});
    ToolNamespace space{
        .name = field.need_string("name"), .description = field.find_string("description"), .tools = {}};
    if (field.place() != tools->place() + '.' + space.name)
      throw InputError("{}.name is '{}'; it must equal the namespace's key", field.place(), space.name);
    if (const auto list = field.find("tools"))
      for (const Field& tool : list->elements()) space.tools.push_back(tool_from(tool));
    spaces.push_back(std::move(space));
  }
  return spaces;
}

SystemContent system_from(const Field& field) {
  field.allow_only({"type", "model_identity", "knowledge_cutoff", "conversation_start_date",
                    "reasoning_effort", "channel_config", "tools"});
  SystemContent content{.model_identity = field.find_string("model_identity"),
                        .knowledge_cutoff = field.find_string("knowledge_cutoff"),
                        .conversation_start_date = field.find_string("conversation_start_date"),
                        .reasoning_effort = std::nullopt,
                        .tools = namespaces_from(field),
                        .valid_channels = {}};
  if (const auto effort = field.find("reasoning_effort")) content.reasoning_effort = effort_from(*effort);
  if (const auto config = field.find("channel_config")) {
    config->allow_only({"valid_channels", "channel_required"});
    for (const Field& channel : config->need("valid_channels", "a list of names").elements())
      content.valid_channels.push_back(channel.string());
    content.channel_required = config->need("channel_required", "true or false").boolean();
  }
  return content;
}

DeveloperContent developer_from(const Field& field) {
  field.allow_only({"type", "instructions", "tools"});
  return {.instructions = field.find_string("instructions"), .tools = namespaces_from(field)};
}

void read_content(const Field& field, Message& message) {
  if (field.value().is_string()) {
    message.text = field.string();
    return;
  }
  if (!field.value().is_array()) field.refuse("a string or a list of one content block");
  const std::vector<Field> blocks = field.elements();
  // The official library encodes several parts separately. The joined text would give other ids.
  if (blocks.size() > 1)
    throw InputError("{} has {} blocks, but only one is accepted; join their texts", field.place(),
                     blocks.size());
  if (blocks.empty()) return;
  const Field& block = blocks[0];
  const Field type = block.need("type", "text, system_content or developer_content");
  if (type.value() == "text") {
    block.allow_only({"type", "text"});
    message.text = block.need_string("text");
  } else if (type.value() == "system_content" && message.role == Role::kSystem) {
    message.system = system_from(block);
  } else if (type.value() == "developer_content" && message.role == Role::kDeveloper) {
    message.developer = developer_from(block);
  } else {
    type.refuse("text, or system_content in a system message, or developer_content in a developer message");
  }
}

Message message_from(const Field& field) {
  field.allow_only({"role", "name", "content", "recipient", "channel", "content_type", "repairs"});
  const Field role = field.need("role", "a role");
  const auto known = role.value().is_string() ? role_of(role.string()) : std::nullopt;
  if (!known) role.refuse("system, developer, user, assistant or tool");
  Message message;
  message.role = *known;
  message.author_name = field.find_string("name");
  message.recipient = field.find_string("recipient");
  message.channel = field.find_string("channel");
  message.content_type = field.find_string("content_type");
  read_content(field.need("content", "a string or a list of one content block"), message);
  return message;
}

void put(Json& out, const char* key, const std::optional<std::string>& value) {
  if (value) out[key] = *value;
}

void put_tools(Json& out, const std::vector<ToolNamespace>& spaces) {
  for (const ToolNamespace& space : spaces) {
    Json& written = out["tools"][space.name];
    written["name"] = space.name;
    put(written, "description", space.description);
    written["tools"] = Json::array();
    for (const Tool& tool : space.tools) {
      Json one{{"name", tool.name}, {"description", tool.description}};
      if (tool.parameters)
        one["parameters"] =
            parse_json(*tool.parameters, fmt::format("the parameters of tool '{}'", tool.name));
      written["tools"].push_back(std::move(one));
    }
  }
}

Json content_of(const SystemContent& content) {
  Json out{{"type", "system_content"}};
  put(out, "model_identity", content.model_identity);
  if (content.reasoning_effort) {
    std::string level(name(*content.reasoning_effort));
    level[0] = static_cast<char>(level[0] - 'a' + 'A');
    out["reasoning_effort"] = level;
  }
  put(out, "conversation_start_date", content.conversation_start_date);
  put(out, "knowledge_cutoff", content.knowledge_cutoff);
  out["channel_config"] = {{"valid_channels", content.valid_channels},
                           {"channel_required", content.channel_required}};
  put_tools(out, content.tools);
  return out;
}

Json content_of(const DeveloperContent& content) {
  Json out{{"type", "developer_content"}};
  put(out, "instructions", content.instructions);
  put_tools(out, content.tools);
  return out;
}

}  // namespace

Conversation conversation_from_json(const Json& value) {
  const Field conversation(value, "conversation");
  conversation.allow_only({"messages"});
  Conversation out;
  for (const Field& message : conversation.need("messages", "a list of messages").elements())
    out.messages.push_back(message_from(message));
  return out;
}

Json to_json(const Message& message) {
  Json out{{"role", name(message.role)}};
  put(out, "name", message.author_name);
  out["content"] = Json::array();
  if (message.system)
    out["content"].push_back(content_of(*message.system));
  else if (message.developer)
    out["content"].push_back(content_of(*message.developer));
  else
    out["content"].push_back({{"type", "text"}, {"text", message.text}});
  put(out, "channel", message.channel);
  put(out, "recipient", message.recipient);
  put(out, "content_type", message.content_type);
  return out;
}

Json to_json(const ParsedMessage& parsed) {
  Json out = to_json(parsed.message);
  if (!parsed.repairs.empty()) out["repairs"] = parsed.repairs;
  return out;
}

Json to_json(const Conversation& conversation) {
  Json out{{"messages", Json::array()}};
  for (const Message& message : conversation.messages) out["messages"].push_back(to_json(message));
  return out;
}

}  // namespace nibble::harmony
