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

// The arguments are the members of the action in a shell_call.
void offer_shell(const Field& tool, ToolSet& tools) {
  if (const auto environment = tool.find("environment");
      environment && environment->find_string("type") != "local")
    return tool.leave_out("shell");  // runs at OpenAI
  offer(
      {.name = "shell",
       .description = "Runs shell commands and returns their output.",
       .parameters =
           R"({"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},)"
           R"("timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},"required":["commands"]})"},
      ToolKind::kShell, std::nullopt, tools);
}

// The arguments are the members of the operation in an apply_patch_call.
void offer_apply_patch(ToolSet& tools) {
  offer({.name = "apply_patch",
         .description =
             "Creates, updates or deletes a file. The diff has the V4A format; a deletion needs none.",
         .parameters =
             R"({"type":"object","properties":{"type":{"enum":["create_file","update_file","delete_file"]},)"
             R"("path":{"type":"string"},"diff":{"type":"string"}},"required":["type","path"]})"},
        ToolKind::kApplyPatch, std::nullopt, tools);
}

void offer_tool_search(const Field& tool, ToolSet& tools) {
  tool.skip({"execution"});
  const auto parameters = tool.find("parameters");
  offer(
      {.name = "tool_search",
       .description = tool.find_string("description").value_or("Searches for tools."),
       .parameters =
           parameters ? harmony::json_line(parameters->value(), harmony::JsonSpacing::kNone)
                      : R"({"type":"object","properties":{"query":{"type":"string"}},"required":["query"]})"},
      ToolKind::kToolSearch, std::nullopt, tools);
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
    member.skip({"type"});
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

// The name in {"name"}, {"function": {"name"}} or {"custom": {"name"}}, or that of the function that stands for a tool without a name.
std::optional<std::string> name_of(const Field& tool) {
  const auto type = tool.find("type");
  Field named = tool;
  for (const char* key : {"function", "custom"})
    if (const auto inner = tool.find(key)) named = *inner;
  if (auto name = named.find_string("name")) return name;
  if (!type) return std::nullopt;
  if (type->value() == "shell" || type->value() == "local_shell") return "shell";
  if (type->value() == "apply_patch" || type->value() == "tool_search") return type->string();
  return std::nullopt;
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
  else if (type == "shell")
    offer_shell(tool, tools);
  else if (type == "apply_patch")
    offer_apply_patch(tools);
  else if (type == "tool_search")
    offer_tool_search(tool, tools);
  else
    tool.leave_out(type);
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

std::string input_of(const std::string& arguments) {
  const Json parsed = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return arguments;
  const auto input = parsed.find(kInput);
  return input != parsed.end() && input->is_string() ? input->get<std::string>() : arguments;
}

}  // namespace nibble::server
