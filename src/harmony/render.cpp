// A message is
//   <|start|>ROLE[:NAME][ to=RECIPIENT][<|channel|>CHANNEL][ CONTENT_TYPE]<|message|>TEXT<|end|>
// A tool message has the tool's name as its ROLE, and an assistant message to a recipient ends in <|call|>.
// Each part is encoded separately and as ordinary text. So the ids are those of the official renderer, and no
// content can become a control token.
//
// A system or developer message is a list of sections with a blank line between them. The tools' section:
//   # Tools
//
//   ## weather
//
//   // The description of the namespace.
//   namespace weather {
//
//   // The description of the tool.
//   type forecast = (_: {...}) => any;
//
//   } // namespace weather
// Namespaces are sorted by name; tools keep their order. For a namespace without tools, only its description
// is written. The last section, which OpenAI documents but its renderer does not write:
//   # Response Formats
//
//   ## name
//
//   // The description of the format.
//   {"type": ...}
#include "harmony/render.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "harmony/control_tokens.h"
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

// Whether the content offers tools in the namespace "functions".
bool has_functions(const DeveloperContent& content) {
  return std::ranges::any_of(content.tools, [](const ToolNamespace& space) {
    return space.name == "functions" && !space.tools.empty();
  });
}

// `has_functions`: the developer message offers function tools. The system message then names their channel.
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

class Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void text(std::string_view text) {
    const std::vector<TokenId> ids = tokenizer_.encode(text, SpecialTokens::kOrdinary);
    rendered_.tokens.insert(rendered_.tokens.end(), ids.begin(), ids.end());
    rendered_.text += text;
  }
  void control(TokenId id) {
    rendered_.tokens.push_back(id);
    rendered_.text += tokenizer_.bytes(id);
  }
  void replace_last_control(TokenId id) {
    rendered_.text.resize(rendered_.text.size() - tokenizer_.bytes(rendered_.tokens.back()).size());
    rendered_.tokens.pop_back();
    control(id);
  }
  Rendered take() { return std::move(rendered_); }

 private:
  const Tokenizer& tokenizer_;
  Rendered rendered_;
};

void check(const Message& message, size_t index) {
  if (message.role == Role::kTool && !message.author_name)
    throw InputError("tool message {} has no name; give the tool's name, such as functions.get_time", index);
  if (message.system && message.role != Role::kSystem)
    throw InputError("message {} of role {} has system content, which only a system message may have", index,
                     name(message.role));
  if (message.developer && message.role != Role::kDeveloper)
    throw InputError("message {} of role {} has developer content, which only a developer message may have",
                     index, name(message.role));
}

void write_author(const Message& message, Writer& out) {
  if (message.role == Role::kTool) return out.text(*message.author_name);
  out.text(name(message.role));
  if (message.author_name) out.text(':' + *message.author_name);
}

void write_content_type(const std::string& type, const ControlTokens& control, Writer& out) {
  if (!type.starts_with(kConstrain)) return out.text(' ' + type);
  out.text(" ");
  out.control(control.constrain);
  out.text(std::string_view(type).substr(kConstrain.size()));
}

void write_message(const Message& message, bool has_functions, const ControlTokens& control, Writer& out) {
  out.control(control.start);
  write_author(message, out);
  if (message.recipient && *message.recipient != "all") out.text(" to=" + *message.recipient);
  if (message.channel) {
    out.control(control.channel);
    out.text(*message.channel);
  }
  if (message.content_type) write_content_type(*message.content_type, control, out);
  out.control(control.message);
  if (message.system) out.text(text_of(*message.system, has_functions));
  if (message.developer) out.text(text_of(*message.developer));
  out.text(message.text);
  out.control(message.role == Role::kAssistant && message.recipient ? control.call : control.end);
}

bool is_final(const Message& message) { return message.channel == "final"; }
bool is_assistants(const Message& message) { return message.role == Role::kAssistant; }

// Returns the index of the first message whose analysis is kept: analysis messages before it are left out.
size_t end_of_dropping(const std::vector<Message>& messages, DropAnalysis rule) {
  if (rule == DropAnalysis::kNone) return 0;
  if (rule == DropAnalysis::kBeforeLastFinal) {
    const auto last = std::find_if(messages.rbegin(), messages.rend(), is_final);
    return static_cast<size_t>(messages.rend() - last);
  }
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_assistants);
  if (last == messages.rend() || !is_final(*last))
    // The last turn is not finished: by the official rule, nothing is left out.
    return 0;
  return static_cast<size_t>(std::ranges::find_if(messages, is_final) - messages.begin());
}

}  // namespace

Rendered render(const Conversation& conversation, const Tokenizer& tokenizer, const RenderOptions& options) {
  const std::vector<Message>& messages = conversation.messages;
  const ControlTokens control(tokenizer);
  const bool any_functions = std::ranges::any_of(messages, [](const Message& message) {
    return message.developer && has_functions(*message.developer);
  });
  const size_t drop_end = end_of_dropping(messages, options.drop_analysis);

  Writer out(tokenizer);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (i < drop_end && messages[i].channel == "analysis") continue;
    check(messages[i], i);
    write_message(messages[i], any_functions, control, out);
  }
  if (options.training && !messages.empty() && is_assistants(messages.back()) && is_final(messages.back()))
    out.replace_last_control(control.done);
  if (options.generation_prompt) {
    out.control(control.start);
    out.text(name(Role::kAssistant));
  }
  return out.take();
}

}  // namespace nibble::harmony
