#include "server/api/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "harmony/chat.h"
#include "harmony/json_text.h"

namespace nibble::server {
namespace {

using harmony::Field;
using harmony::Json;
using harmony::Tool;

constexpr size_t kMaxTools{1024};

// False for one that is offered already, as by a search of tools.
bool is_new(const ToolSet& tools, std::string_view space, std::string_view name) {
  if (tools.offered.size() >= kMaxTools)
    throw InputError("request.tools must be a list of at most {} tools, not more", kMaxTools);
  return !tools.has(space, name);
}

void offer(Tool tool, ToolKind kind, ToolSet& tools) {
  if (!is_new(tools, "functions", tool.name)) return;
  tools.offered.push_back({.name = tool.name, .space = "functions", .kind = kind});
  tools.functions.push_back(std::move(tool));
}

// {"name", "description", "format": {"type": "text"} or {"type": "grammar", "syntax", "definition"}}, of which a chat wraps the grammar
// once more.
void offer_custom(const Field& tool, ToolSet& tools) {
  Tool function{.name = tool.need_string("name"),
                .description = tool.find_string("description").value_or(""),
                .parameters = {}};
  if (const auto format = tool.find("format"); format && format->find_string("type") == "grammar") {
    const Field grammar = format->find("grammar").value_or(*format);
    function.description += "\nThe input follows this grammar (" + grammar.need_string("syntax") + "):\n" +
                            grammar.need_string("definition");
  }
  function.parameters = R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"]})";
  offer(std::move(function), ToolKind::kCustom, tools);
}

void offer_local_shell(ToolSet& tools) {
  offer({.name = "shell",
         .description = "Runs a command and returns its output.",
         .parameters =
             R"({"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},)"
             R"("workdir":{"type":"string"},"timeout_ms":{"type":"number"}},"required":["command"]})"},
        ToolKind::kLocalShell, tools);
}

void offer_namespace(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  const std::string name = tool.need_string("name");
  const std::vector<Field> members = tool.need("tools", "a list of functions").elements();
  if (name == "functions") {
    for (const Field& member : members) add_response_tool(member, tools, ignored);
    return;
  }
  auto space = std::find_if(tools.namespaces.begin(), tools.namespaces.end(),
                            [&](const harmony::ToolNamespace& known) { return known.name == name; });
  if (space == tools.namespaces.end())
    space = tools.namespaces.insert(
        space, {.name = name, .description = tool.find_string("description"), .tools = {}});
  for (const Field& member : members) {
    Tool function = harmony::tool_from_function(member);
    if (!is_new(tools, name, function.name)) continue;
    tools.offered.push_back({.name = function.name, .space = name});
    space->tools.push_back(std::move(function));
  }
}

// The names in {"mode": "auto", "tools": [{"name"} or {"function": {"name"}} or {"custom": {"name"}}]}.
std::vector<std::string> read_allowed(const Field& allowed) {
  const Field mode = allowed.need("mode", "\"auto\"");
  if (mode.value() != "auto") mode.refuse("\"auto\": a call can't be forced");
  std::vector<std::string> names;
  for (const Field& tool : allowed.need("tools", "a list of tools").elements()) {
    Field named = tool;
    for (const char* key : {"function", "custom"})
      if (const auto inner = tool.find(key)) named = *inner;
    // A tool of another type has no name; it was left out.
    if (const auto name = named.find_string("name")) names.push_back(*name);
  }
  return names;
}

}  // namespace

void ToolSet::keep(const std::vector<std::string>& names) {
  const auto is_left_out = [&](const auto& tool) {
    return std::find(names.begin(), names.end(), tool.name) == names.end();
  };
  std::erase_if(functions, is_left_out);
  std::erase_if(offered, is_left_out);
  for (harmony::ToolNamespace& space : namespaces) std::erase_if(space.tools, is_left_out);
  std::erase_if(namespaces, [](const harmony::ToolNamespace& space) { return space.tools.empty(); });
}

bool ToolSet::has(std::string_view space, std::string_view name) const {
  return std::any_of(offered.begin(), offered.end(),
                     [&](const OfferedTool& tool) { return tool.space == space && tool.name == name; });
}

void add_function(const Field& function, ToolSet& tools) {
  offer(harmony::tool_from_function(function), ToolKind::kFunction, tools);
}

void add_chat_tool(const Field& tool, ToolSet& tools) {
  const Field type = tool.need("type", "\"function\" or \"custom\"");
  if (type.value() == "custom")
    offer_custom(tool.need("custom", "an object with name, description and format"), tools);
  else if (type.value() == "function")
    add_function(tool.need("function", "an object with name, description and parameters"), tools);
  else
    type.refuse("\"function\" or \"custom\"");
}

void add_response_tool(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  const std::string type = tool.need("type", "a type of tools").string();
  if (type == "function")
    add_function(tool, tools);
  else if (type == "custom")
    offer_custom(tool, tools);
  else if (type == "namespace")
    offer_namespace(tool, tools, ignored);
  else if (type == "local_shell")
    offer_local_shell(tools);
  else if (type == "tool_search")
    offer({.name = "tool_search",
           .description = tool.find_string("description").value_or("Searches for tools."),
           .parameters = harmony::json_line(tool.find("parameters")
                                                ? tool.find("parameters")->value()
                                                : Json{{"type", "object"},
                                                       {"properties", {{"query", {{"type", "string"}}}}},
                                                       {"required", {"query"}}},
                                            harmony::JsonSpacing::kNone)},
          ToolKind::kToolSearch, tools);
  else
    ignored.add("tools." + type, "left out");
}

void apply_tool_choice(const Field& request, ToolSet& tools) {
  const auto choice = request.find("tool_choice");
  if (!choice || choice->value() == "auto") return;
  if (choice->value() == "none") return tools.clear();
  const bool is_allowed_tools = choice->value().is_object() && choice->find_string("type") == "allowed_tools";
  if (!is_allowed_tools) choice->refuse("\"auto\", \"none\" or allowed_tools: a call can't be forced");
  tools.keep(read_allowed(choice->find("allowed_tools").value_or(*choice)));
}

std::string input_of(const std::string& arguments) {
  const Json parsed = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return arguments;
  const auto input = parsed.find("input");
  return input != parsed.end() && input->is_string() ? input->get<std::string>() : arguments;
}

}  // namespace nibble::server
