// Reads the tools that a request offers, and which of them the model may call. Harmony has only functions, in
// namespaces. Other kinds of tools are offered as functions where possible; their calls are reported in the
// format of the tool's kind. Unsupported tools (web_search, mcp, ...) are listed as ignored, not refused:
// agents offer all the tools they have and can do without some.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/languages/source.h"
#include "harmony/field.h"
#include "harmony/message.h"
#include "server/api/generation_params.h"
#include "server/api/request_fields.h"

namespace nibble::server {

enum class ToolKind {
  kFunction,
  kCustom,      // takes one text, as the argument "input"
  kLocalShell,  // OpenAI's local_shell; offered as the function "shell"
  kToolSearch,  // Codex's tool_search; offered as the function "tool_search"
  kShell,       // OpenAI's shell; offered as the function "shell", which takes several commands
  kApplyPatch,  // OpenAI's apply_patch; offered as the function "apply_patch"
};

struct OfferedTool {
  std::string name{};
  std::string space{"functions"};  // the tool's namespace
  ToolKind kind{ToolKind::kFunction};
  std::optional<std::string> parameters{};  // JSON schema of the arguments; absent: any object
  std::optional<grammar::Source> input{};   // kCustom: grammar of the text, if the tool has one
  bool is_strict{false};                    // refuse the request if the schema can't be enforced
  bool may_be_called{true};                 // whether tool_choice allows it
  std::string description{};
};

struct ToolSet {
  std::vector<harmony::Tool> functions;
  std::vector<harmony::ToolNamespace> namespaces;  // except "functions"
  std::vector<OfferedTool> offered;                // the tools of all namespaces

  // Allows calls only of tools with these names. The prompt still lists all tools, to hit the prefix cache.
  void allow_only(const std::vector<std::string>& names);
  const OfferedTool* find(std::string_view space, std::string_view name) const;  // null: absent
  bool has(std::string_view name) const;  // whether any namespace has a tool of this name
  // Adds the tools of `more`. A tool whose name another tool already has is left out and added to `ignored`.
  void add_new(ToolSet more, IgnoredFields& ignored);
};

// The next three functions read an element of "tools". A second tool of the same name is ignored if it equals
// the first, or if it is one of OpenAI's built-in tools; otherwise the functions throw InputError.
void add_chat_tool(const Field& tool, ToolSet& tools, IgnoredFields& ignored);
void add_function(const Field& function, ToolSet& tools, IgnoredFields& ignored);
void add_response_tool(const Field& tool, ToolSet& tools, IgnoredFields& ignored);

// Obeys tool_choice in OpenAI's forms: none, auto, required, a named tool, allowed_tools. Throws InputError.
void apply_tool_choice(const Field& request, ToolSet& tools, GenerationParams& params);
// Forces a call of tool `name`; nullopt: any tool. `choice`: the request's field, named in error messages.
void force_call(const Field& choice, const std::optional<std::string>& name, ToolSet& tools,
                GenerationParams& params);

// Returns the text in a call of a kCustom tool: the member "input" of the arguments, or the arguments
// themselves if they have no such member. For a call that was cut off (`is_whole` is false), returns the text
// so far.
std::string input_of(const std::string& arguments, bool is_whole);

}  // namespace nibble::server
