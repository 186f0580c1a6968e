#include "server/api/tools.h"

#include <algorithm>
#include <utility>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/chat.h"
#include "harmony/json_text.h"

namespace nibble::server {
namespace {

using harmony::Tool;

constexpr size_t kMaxTools{1024};
constexpr const char* kInput{"input"};  // the argument that holds a custom tool's text

std::vector<Tool>& shown_in(ToolSet& tools, const std::string& space) {
  if (space == "functions") return tools.functions;
  const auto found = std::ranges::find(tools.namespaces, space, &harmony::ToolNamespace::name);
  if (found != tools.namespaces.end()) return found->tools;
  return tools.namespaces.emplace_back(harmony::ToolNamespace{.name = space, .description = {}, .tools = {}})
      .tools;
}

bool is_same(const OfferedTool& one, const OfferedTool& other) {
  return one.description == other.description && one.kind == other.kind &&
         one.parameters == other.parameters && one.input == other.input && one.is_strict == other.is_strict;
}

void offer(const std::string& place, Tool shown, OfferedTool tool, ToolSet& tools, IgnoredFields& ignored) {
  if (tools.offered.size() >= kMaxTools)
    throw InputError("request.tools must be a list of at most {} tools", kMaxTools);
  tool.name = shown.name;
  tool.description = shown.description;
  if (const OfferedTool* first = tools.find(tool.space, tool.name)) {
    if (is_same(*first, tool)) return ignored.add("tools." + tool.name, "declared twice");
    throw InputError("{} has the name '{}' of an earlier, different tool; give it another name", place,
                     tool.name);
  }
  shown_in(tools, tool.space).push_back(std::move(shown));
  tools.offered.push_back(std::move(tool));
}

// Reads {"name", "description", "format": {"type": "text"} or {"type": "grammar", "syntax", "definition"}}.
void offer_custom(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  constexpr const char* kSyntaxes{"\"lark\" or \"regex\""};
  OfferedTool offered{.kind = ToolKind::kCustom, .is_strict = true};
  Tool function{.name = harmony::need_tool_name(tool, "name"),
                .description = tool.find_string("description").value_or(""),
                .parameters = {}};
  if (const auto format = tool.find("format"); format && format->find_string("type") == "grammar") {
    const Field grammar = format->find("grammar").value_or(*format);
    const Field syntax = grammar.need("syntax", kSyntaxes);
    if (syntax.value() != "lark" && syntax.value() != "regex") syntax.refuse(kSyntaxes);
    offered.input = {
        .language = syntax.value() == "lark" ? grammar::Language::kLark : grammar::Language::kRegex,
        .text = grammar.need_string("definition"),
        .argument = kInput};
    function.description +=
        "\nThe input follows this grammar (" + syntax.string() + "):\n" + offered.input->text;
  }
  offered.parameters = function.parameters =
      R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"]})";
  offer(tool.place(), std::move(function), std::move(offered), tools, ignored);
}

// Returns the arguments' schema, narrowed to objects if it allows other types; nullopt: any object.
std::optional<std::string> arguments_schema(const Field& function) {
  const auto parameters = function.find("parameters");
  if (!parameters || parameters->value() == true || parameters->value() == Json::object())
    return std::nullopt;
  Json schema = parameters->value();
  if (schema.is_object()) {
    const Json& type = schema["type"];
    const bool may_be_object =
        type.is_null() || (type.is_array() && std::find(type.begin(), type.end(), "object") != type.end());
    if (may_be_object) schema["type"] = "object";
  }
  return harmony::json_line(schema);
}

void offer_function(const Field& function, const std::string& space, ToolSet& tools, IgnoredFields& ignored) {
  const auto strict = function.find("strict");
  Tool shown = harmony::tool_from_function(function);
  offer(function.place(), std::move(shown),
        {.space = space, .parameters = arguments_schema(function), .is_strict = strict && strict->boolean()},
        tools, ignored);
}

// OpenAI's built-in tools, each with the function that the model sees instead. The arguments of shell and
// apply_patch are the members of "action" and "operation" in OpenAI's items shell_call and apply_patch_call.
struct BuiltInTool {
  std::string_view type;
  ToolKind kind;
  std::string_view function;
};
constexpr BuiltInTool kBuiltInTools[] = {
    {"local_shell", ToolKind::kLocalShell,
     R"({"name":"shell","description":"Runs a command and returns its output.","parameters":
        {"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}},
        "workdir":{"type":"string"},"timeout_ms":{"type":"number"}},"required":["command"]}})"},
    {"shell", ToolKind::kShell,
     R"({"name":"shell","description":"Runs shell commands and returns their output.","parameters":
        {"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},
        "timeout_ms":{"type":"integer"},"max_output_length":{"type":"integer"}},"required":["commands"]}})"},
    {"apply_patch", ToolKind::kApplyPatch,
     R"({"name":"apply_patch","description":
        "Creates, updates or deletes a file. The diff has the V4A format; a deletion needs none.","parameters":
        {"type":"object","properties":{"type":{"enum":["create_file","update_file","delete_file"]},
        "path":{"type":"string"},"diff":{"type":"string"}},"required":["type","path"]}})"},
    {"tool_search", ToolKind::kToolSearch,
     R"({"name":"tool_search","description":"Searches for tools.","parameters":
        {"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}})"},
};

void offer_built_in(const Field& tool, const BuiltInTool& row, ToolSet& tools, IgnoredFields& ignored) {
  Json function = Json::parse(row.function);
  if (row.kind == ToolKind::kShell) {
    const auto environment = tool.find("environment");
    if (environment && environment->find_string("type") != "local")
      return tool.leave_out("shell");  // Only the environment "local" runs on the client's machine.
  }
  if (row.kind == ToolKind::kToolSearch) {
    tool.skip({"execution"});
    for (const char* key : {"description", "parameters"})
      if (const auto own = tool.find(key)) function[key] = own->value();
  }
  const Field standing(function, tool.place());
  // Agents offer all their tools, so two of OpenAI's tools may map to the same function. The first one wins.
  const OfferedTool* first = tools.find("functions", function["name"].get<std::string>());
  if (first && first->kind != row.kind)
    return ignored.add("tools." + tool.need_string("type"), "left out: an earlier tool has its name");
  offer(tool.place(), harmony::tool_from_function(standing),
        {.kind = row.kind, .parameters = arguments_schema(standing)}, tools, ignored);
}

void offer_namespace(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  const std::string name = harmony::need_tool_name(tool, "name");
  const std::vector<Field> members = tool.need("tools", "a list of functions").elements();
  if (name == "functions") {
    for (const Field& member : members) add_response_tool(member, tools, ignored);
    return;
  }
  for (const Field& member : members) {
    member.skip({"type"});
    offer_function(member, name, tools, ignored);
  }
  for (harmony::ToolNamespace& space : tools.namespaces)
    if (space.name == name && !space.description) space.description = tool.find_string("description");
}

// Returns the name in {"name"}, {"function": {"name"}} or {"custom": {"name"}}, else a built-in tool's name.
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
  for (OfferedTool& tool : offered) tool.may_be_called = std::ranges::find(names, tool.name) != names.end();
}

const OfferedTool* ToolSet::find(std::string_view space, std::string_view name) const {
  const auto found = std::ranges::find_if(
      offered, [&](const OfferedTool& tool) { return tool.space == space && tool.name == name; });
  return found == offered.end() ? nullptr : &*found;
}

bool ToolSet::has(std::string_view name) const {
  return std::ranges::any_of(offered, [&](const OfferedTool& tool) { return tool.name == name; });
}

void ToolSet::add_new(ToolSet more, IgnoredFields& ignored) {
  for (OfferedTool& tool : more.offered) {
    if (const OfferedTool* first = find(tool.space, tool.name)) {
      if (!is_same(*first, tool)) ignored.add("tools." + tool.name, "declared before");
      continue;
    }
    std::vector<Tool>& shown = shown_in(more, tool.space);
    const auto own = std::ranges::find(shown, tool.name, &Tool::name);
    shown_in(*this, tool.space).push_back(std::move(*own));
    offered.push_back(std::move(tool));
  }
  for (harmony::ToolNamespace& space : namespaces)
    for (harmony::ToolNamespace& other : more.namespaces)
      if (space.name == other.name && !space.description) space.description = std::move(other.description);
}

void add_function(const Field& function, ToolSet& tools, IgnoredFields& ignored) {
  offer_function(function, "functions", tools, ignored);
}

void add_chat_tool(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  const Field type = tool.need("type", "\"function\" or \"custom\"");
  if (type.value() == "custom")
    offer_custom(tool.need("custom", "an object with name, description and format"), tools, ignored);
  else if (type.value() == "function")
    add_function(tool.need("function", "an object with name, description and parameters"), tools, ignored);
  else
    type.refuse("\"function\" or \"custom\"");
}

void add_response_tool(const Field& tool, ToolSet& tools, IgnoredFields& ignored) {
  const std::string type = tool.need("type", "a tool type").string();
  if (type == "function")
    add_function(tool, tools, ignored);
  else if (type == "custom")
    offer_custom(tool, tools, ignored);
  else if (type == "namespace")
    offer_namespace(tool, tools, ignored);
  else if (const auto* row = std::ranges::find(kBuiltInTools, type, &BuiltInTool::type);
           row != std::end(kBuiltInTools))
    offer_built_in(tool, *row, tools, ignored);
  else
    tool.leave_out(type);
}

void force_call(const Field& choice, const std::optional<std::string>& name, ToolSet& tools,
                GenerationParams& params) {
  if (name) tools.allow_only({*name});
  if (std::ranges::none_of(tools.offered, [](const OfferedTool& tool) { return tool.may_be_called; }))
    choice.refuse(name ? "a tool of the request that may be called" : "auto or none if no tool is offered");
  params.must_call = true;
}

void apply_tool_choice(const Field& request, ToolSet& tools, GenerationParams& params) {
  const auto choice = request.find("tool_choice");
  if (!choice || choice->value() == "auto") return;
  if (choice->value() == "none") return tools.allow_only({});
  if (choice->value() == "required") return force_call(*choice, std::nullopt, tools, params);
  constexpr const char* kAccepted{"\"auto\", \"none\", \"required\", a tool's name or allowed_tools"};
  if (!choice->value().is_object()) choice->refuse(kAccepted);
  if (choice->find_string("type") == "allowed_tools") {
    const Field allowed = choice->find("allowed_tools").value_or(*choice);
    std::vector<std::string> names;
    for (const Field& tool : allowed.need("tools", "a list of tools").elements()) {
      const auto name = name_of(tool);
      if (!name) continue;
      if (!tools.has(*name)) tool.refuse("a tool of the request");
      names.push_back(*name);
    }
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

// Returns the text of a custom tool's arguments that were cut off, without an incomplete escape at its end.
std::string input_so_far(const std::string& arguments) {
  constexpr size_t kLongestEscape{12};  // a surrogate pair, such as \uD83D\uDE00
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
