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
constexpr const char* kInput{"input"};  // the argument that is a custom tool's text

// False for one that is offered already, as by a search of tools.
bool is_new(const ToolSet& tools, std::string_view space, std::string_view name) {
  if (tools.offered.size() >= kMaxTools)
    throw InputError("request.tools must be a list of at most {} tools, not more", kMaxTools);
  return !tools.has(space, name);
}

void offer(Tool tool, ToolKind kind, std::optional<bool> is_strict, ToolSet& tools) {
  if (!is_new(tools, "functions", tool.name)) return;
  tools.offered.push_back({.name = tool.name,
                           .space = "functions",
                           .kind = kind,
                           .parameters = tool.parameters,
                           .is_strict = is_strict});
  tools.functions.push_back(std::move(tool));
}

// {"name", "description", "format": {"type": "text"} or {"type": "grammar", "syntax", "definition"}}, of which a chat wraps the grammar
// once more.
void offer_custom(const Field& tool, ToolSet& tools) {
  constexpr const char* kSyntaxes{"\"lark\" or \"regex\""};
  std::optional<grammar::Source> input;
  Tool function{.name = tool.need_string("name"),
                .description = tool.find_string("description").value_or(""),
                .parameters = {}};
  if (const auto format = tool.find("format"); format && format->find_string("type") == "grammar") {
    const Field grammar = format->find("grammar").value_or(*format);
    const Field syntax = grammar.need("syntax", kSyntaxes);
    if (syntax.value() != "lark" && syntax.value() != "regex") syntax.refuse(kSyntaxes);
    input = {.language = syntax.value() == "lark" ? grammar::Language::kLark : grammar::Language::kRegex,
             .text = grammar.need_string("definition"),
             .argument = kInput};
    function.description += "\nThe input follows this grammar (" + syntax.string() + "):\n" + input->text;
  }
  function.parameters = R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"]})";
  const size_t num_offered = tools.offered.size();
  offer(std::move(function), ToolKind::kCustom, true, tools);
  if (tools.offered.size() > num_offered) tools.offered.back().input = std::move(input);
}

// Absent: OpenAI's chats then hold arguments to nothing and its responses to the schema.
std::optional<bool> strictness(const Field& function) {
  const auto strict = function.find("strict");
  return strict ? std::optional(strict->boolean()) : std::nullopt;
}

void offer_local_shell(ToolSet& tools) {
  offer({.name = "shell",
         .description = "Runs a command and returns its output.",
         .parameters =
             R"({"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},)"
             R"("workdir":{"type":"string"},"timeout_ms":{"type":"number"}},"required":["command"]})"},
        ToolKind::kLocalShell, std::nullopt, tools);
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
    tools.offered.push_back({.name = function.name,
                             .space = name,
                             .kind = ToolKind::kFunction,
                             .parameters = function.parameters,
                             .is_strict = strictness(member)});
    space->tools.push_back(std::move(function));
  }
}

// The name in {"name"}, {"function": {"name"}} or {"custom": {"name"}}. A tool of another type has none.
std::optional<std::string> name_of(const Field& tool) {
  Field named = tool;
  for (const char* key : {"function", "custom"})
    if (const auto inner = tool.find(key)) named = *inner;
  return named.find_string("name");
}

}  // namespace

void ToolSet::allow_only(const std::vector<std::string>& names) {
  for (OfferedTool& tool : offered)
    tool.may_be_called = std::find(names.begin(), names.end(), tool.name) != names.end();
}

bool ToolSet::has(std::string_view space, std::string_view name) const {
  return std::any_of(offered.begin(), offered.end(),
                     [&](const OfferedTool& tool) { return tool.space == space && tool.name == name; });
}

void add_function(const Field& function, ToolSet& tools) {
  offer(harmony::tool_from_function(function), ToolKind::kFunction, strictness(function), tools);
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
          ToolKind::kToolSearch, std::nullopt, tools);
  else
    ignored.add("tools." + type, "left out");
}

void force_call(const Field& choice, const std::optional<std::string>& name, ToolSet& tools,
                GenerationParams& params) {
  if (name) tools.allow_only({*name});
  if (std::none_of(tools.offered.begin(), tools.offered.end(),
                   [](const OfferedTool& tool) { return tool.may_be_called; }))
    choice.refuse(name ? "a tool of the request that can be called"
                       : "auto or none where no tool is offered");
  params.must_call = true;
}

void apply_tool_choice(const Field& request, ToolSet& tools, GenerationParams& params) {
  const auto choice = request.find("tool_choice");
  if (!choice || choice->value() == "auto") return;
  if (choice->value() == "none") return tools.clear();
  if (choice->value() == "required") return force_call(*choice, std::nullopt, tools, params);
  constexpr const char* kAccepted{"\"auto\", \"none\", \"required\", a tool's name or allowed_tools"};
  if (!choice->value().is_object()) choice->refuse(kAccepted);
  if (choice->find_string("type") == "allowed_tools") {
    const Field allowed = choice->find("allowed_tools").value_or(*choice);
    std::vector<std::string> names;
    for (const Field& tool : allowed.need("tools", "a list of tools").elements())
      if (auto name = name_of(tool)) names.push_back(std::move(*name));
    tools.allow_only(names);
    const Field mode = allowed.need("mode", "\"auto\" or \"required\"");
    if (mode.value() == "required") return force_call(*choice, std::nullopt, tools, params);
    if (mode.value() != "auto") mode.refuse("\"auto\" or \"required\"");
    return;
  }
  const auto name = name_of(*choice);
  if (!name) choice->refuse(kAccepted);
  force_call(*choice, name, tools, params);
}

namespace {

std::optional<std::string> whole_input(const std::string& arguments) {
  const Json parsed = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  const auto input = parsed.find(kInput);
  return input != parsed.end() && input->is_string() ? std::optional(input->get<std::string>())
                                                     : std::nullopt;
}

// Ends the JSON where it was cut off. An escape that was cut is left out.
std::string input_so_far(const std::string& arguments) {
  constexpr size_t kLongestEscape{12};  // of two surrogates
  if (const auto input = whole_input(arguments + "}")) return *input;
  for (size_t num_cut = 0; num_cut < std::min(kLongestEscape, arguments.size()); ++num_cut)
    if (const auto input = whole_input(arguments.substr(0, arguments.size() - num_cut) + "\"}"))
      return *input;
  return arguments.starts_with('{') ? "" : arguments;
}

}  // namespace

std::string input_of(const std::string& arguments, bool is_whole) {
  if (const auto input = whole_input(arguments)) return *input;
  return is_whole ? arguments : input_so_far(arguments);
}

}  // namespace nibble::server
