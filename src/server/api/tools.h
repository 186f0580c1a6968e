// Reads the tools that a request offers, and says which of them the model may call.
//
// Harmony has functions in namespaces and no other kind. A tool of another kind that has a form as a function is offered as that, and its
// calls are told in the form of its kind; one that has none (web_search, mcp, ...) is left out and named among the ignored fields, because
// agents offer all that they have and go on without what is missing.
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
  kLocalShell,  // OpenAI's local_shell, as the function "shell"
  kToolSearch,  // Codex's, as the function "tool_search"
  kShell,       // OpenAI's shell, as the function "shell" of several commands
  kApplyPatch,  // OpenAI's apply_patch, as the function "apply_patch"
};

struct OfferedTool {
  std::string name{};
  std::string space{"functions"};  // its namespace
  ToolKind kind{ToolKind::kFunction};
  std::optional<std::string> parameters{};  // the schema of its arguments; absent: any object
  std::optional<grammar::Source> input{};   // of kCustom: what its text must be, where it says so
  bool is_strict{false};                    // a schema that can't be enforced is an error
  bool may_be_called{true};                 // tool_choice allows it
  std::string description{};
};

struct ToolSet {
  std::vector<harmony::Tool> functions;
  std::vector<harmony::ToolNamespace> namespaces;  // beside "functions"
  std::vector<OfferedTool> offered;                // all of them

  // Allows only calls of tools of these names. The prompt offers all, so that the prefix cache has it.
  void allow_only(const std::vector<std::string>& names);
  const OfferedTool* find(std::string_view space, std::string_view name) const;  // null: absent
  bool has(std::string_view name) const;                                         // in any namespace
  // Adds those of `more` whose names are new. The names of others are added to `ignored` if the tools differ.
  void add_new(ToolSet more, IgnoredFields& ignored);
};

// Read the element of a list "tools". A second tool of the same name is an error if it differs, and is else added to `ignored`.
// Throw InputError.
void add_chat_tool(const harmony::Field& tool, ToolSet& tools, IgnoredFields& ignored);
void add_function(const harmony::Field& function, ToolSet& tools, IgnoredFields& ignored);
void add_response_tool(const harmony::Field& tool, ToolSet& tools, IgnoredFields& ignored);

// Obeys tool_choice in OpenAI's forms: none, auto, required, a named tool, allowed_tools. Throws InputError.
void apply_tool_choice(const harmony::Field& request, ToolSet& tools, GenerationParams& params);
// A call must come, of the named tool or of any. `choice` asks for it.
void force_call(const harmony::Field& choice, const std::optional<std::string>& name, ToolSet& tools,
                GenerationParams& params);

// The text that a call of a tool of kind kCustom carries; the arguments themselves where they are not as asked for. Where the call
// was cut off, its text so far.
std::string input_of(const std::string& arguments, bool is_whole);

}  // namespace nibble::server
