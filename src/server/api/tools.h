// The tools that a request offers, and whether the model may call them.
//
// Harmony has functions in namespaces and no other kind. A tool of another kind that has a form as a function is offered as that, and its
// calls are told in the form of its kind; one that has none (web_search, mcp, ...) is left out and named among the ignored fields, because
// agents offer all that they have and go on without what is missing.
#pragma once

#include <string>
#include <vector>

#include "harmony/field.h"
#include "harmony/message.h"
#include "server/api/request_fields.h"

namespace nibble::server {

enum class ToolKind {
  kFunction,
  kCustom,      // takes one text, as the argument "input"
  kLocalShell,  // OpenAI's local_shell, as the function "shell"
  kToolSearch,  // Codex's, as the function "tool_search"
};

struct OfferedTool {
  std::string name;
  std::string space{"functions"};  // its namespace
  ToolKind kind{ToolKind::kFunction};
};

struct ToolSet {
  std::vector<harmony::Tool> functions;
  std::vector<harmony::ToolNamespace> namespaces;  // beside "functions"
  std::vector<OfferedTool> offered;                // all of them

  void clear() { *this = {}; }
  // Leaves only the tools of these names.
  void keep(const std::vector<std::string>& names);
  bool has(std::string_view space, std::string_view name) const;
};

// Reads the element of a list "tools". Throws InputError.
void add_chat_tool(const harmony::Field& tool, ToolSet& tools);
void add_function(const harmony::Field& function, ToolSet& tools);
void add_response_tool(const harmony::Field& tool, ToolSet& tools, IgnoredFields& ignored);

// Obeys tool_choice: none, auto, or allowed_tools in either API's form. Throws InputError for one that forces a call.
void apply_tool_choice(const harmony::Field& request, ToolSet& tools);

// The text that a call of a tool of kind kCustom carries; the arguments themselves where they are not as asked for.
std::string input_of(const std::string& arguments);

}  // namespace nibble::server
