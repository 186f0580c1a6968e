// A system or developer message is a list of sections with a blank line between them. The tools' section:
//   # Tools
//
//   ## weather
//
//   // What the namespace is for.
//   namespace weather {
//
//   // What the tool does.
//   type forecast = (_: {...}) => any;
//
//   } // namespace weather
// Namespaces are sorted by name; tools keep their order. For a namespace without tools, only its description
// is written. The last section, which OpenAI documents but its renderer does not write:
//   # Response Formats
//
//   ## name
//
//   // What it is.
//   {"type": ...}
#include "harmony/content.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text/json.h"
#include "harmony/typescript.h"

namespace nibble::harmony {

namespace {

// Splits text into lines as Rust's str::lines does: at "\n" or "\r\n", without an empty last line.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (end != std::string_view::npos && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::string tool_text(const Tool& tool) {
  std::string out;
  for (const std::string_view line : lines_of(tool.description)) out += fmt::format("// {}\n", line);
  if (!tool.parameters) return out + fmt::format("type {} = () => any;\n", tool.name);
  const Json schema = parse_json(*tool.parameters, fmt::format("the parameters of tool '{}'", tool.name));
  return out + fmt::format("type {} = (_: {}) => any;\n", tool.name, typescript_type(schema));
}

std::string namespace_text(const ToolNamespace& space) {
  std::vector<std::string> lines{fmt::format("## {}\n", space.name)};
  if (space.description)
    for (const std::string_view line : lines_of(*space.description))
      lines.push_back(space.tools.empty() ? std::string(line) : fmt::format("// {}", line));
  if (!space.tools.empty()) {
    lines.push_back(fmt::format("namespace {} {{\n", space.name));
    for (const Tool& tool : space.tools) lines.push_back(tool_text(tool));
    lines.push_back(fmt::format("}} // namespace {}", space.name));
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string tools_section(const std::vector<ToolNamespace>& spaces) {
  std::vector<const ToolNamespace*> sorted;
  for (const ToolNamespace& space : spaces) sorted.push_back(&space);
  std::ranges::stable_sort(sorted, [](const auto* a, const auto* b) { return a->name < b->name; });
  std::string out = "# Tools";
  for (const ToolNamespace* space : sorted) out += "\n\n" + namespace_text(*space);
  return out;
}

std::string response_format_section(const ResponseFormat& format) {
  std::string out = fmt::format("# Response Formats\n\n## {}\n\n", format.name);
  for (const std::string_view line : lines_of(format.description)) out += fmt::format("// {}\n", line);
  return out + json_line(parse_json(format.schema, "the schema of the response format"));
}

}  // namespace

bool has_functions(const DeveloperContent& content) {
  return std::ranges::any_of(content.tools, [](const ToolNamespace& space) {
    return space.name == "functions" && !space.tools.empty();
  });
}

std::string text_of(const SystemContent& content, bool has_functions) {
  std::vector<std::string> about;
  if (content.model_identity) about.push_back(*content.model_identity);
  if (content.knowledge_cutoff) about.push_back("Knowledge cutoff: " + *content.knowledge_cutoff);
  if (content.conversation_start_date) about.push_back("Current date: " + *content.conversation_start_date);

  std::vector<std::string> sections;
  if (!about.empty()) sections.push_back(fmt::format("{}", fmt::join(about, "\n")));
  if (content.reasoning_effort)
    sections.push_back(fmt::format("Reasoning: {}", name(*content.reasoning_effort)));
  if (!content.tools.empty()) sections.push_back(tools_section(content.tools));
  if (!content.valid_channels.empty()) {
    std::string channels = fmt::format("# Valid channels: {}.", fmt::join(content.valid_channels, ", "));
    if (content.channel_required) channels += " Channel must be included for every message.";
    if (has_functions) channels += "\nCalls to these tools must go to the commentary channel: 'functions'.";
    sections.push_back(std::move(channels));
  }
  return fmt::format("{}", fmt::join(sections, "\n\n"));
}

std::string text_of(const DeveloperContent& content) {
  std::vector<std::string> sections;
  if (content.instructions) sections.push_back("# Instructions\n\n" + *content.instructions);
  if (!content.tools.empty()) sections.push_back(tools_section(content.tools));
  if (content.response_format) sections.push_back(response_format_section(*content.response_format));
  return fmt::format("{}", fmt::join(sections, "\n\n"));
}

}  // namespace nibble::harmony
