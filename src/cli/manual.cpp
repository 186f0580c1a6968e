// nibble manual: prints a manual page in roff, made from the help of the commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/version.h"
#include "core/errors/error.h"
#include "core/text/near_name.h"
#include "core/text/take_until.h"

namespace nibble::cli {
namespace {

constexpr const char* kManualFooter{R"(
'cmake --install' and the packages install a page for nibble and one for each command.

Examples:
  nibble manual serve | man -l -
  nibble manual > nibble.1)"};

constexpr size_t kRoffColumns{68};  // before '-' becomes '\-': lines of a page should stay below 80 bytes
constexpr std::string_view kExamplesTitle{"\nExample"}, kExitCodesTitle{"Exit codes: "};
constexpr std::string_view kSharedText{"Flags of the groups"};  // begins the last part of each footer

struct Entry {
  std::string_view name, what;
};

constexpr Entry kVariableEntries[]{
    {"NIBBLE_NAME",
     "sets the flag --name: NIBBLE_MAX_TOKENS sets --max-tokens. Works for flags of the groups Instructions, "
     "Sampling, Machine and Places of every command that has them. A flag takes precedence."},
    {"NIBBLE_API_KEY",
     "a key that serve requires, unless a flag names keys; the key that bench serve sends."},
    {"NIBBLE_SECRET", "the secret of --nodes, if there is no --secret-file."},
    {"HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME",
     "where models of Hugging Face are looked for, as in huggingface_hub."},
    {"OLLAMA_MODELS", "Ollama's folder of models."},
    {"XDG_STATE_HOME", "where chat keeps the questions that were typed."},
    {"NO_COLOR", "if it is not empty, nothing is dimmed."},
};

constexpr Entry kFileEntries[]{
    {"~/.cache/huggingface/hub", "models downloaded with hf: openai/gpt-oss-20b."},
    {"~/.ollama/models, /usr/share/ollama/.ollama/models", "models of Ollama: gpt-oss:20b."},
    {"~/.lmstudio/models, ~/.cache/lm-studio/models", "models of LM Studio: OWNER/NAME."},
    {"PREFIX/share/nibble/models", "the bundled miniature, tiny."},
    {"~/.local/state/nibble/history", "questions that were typed in chat."},
    {"/etc/nibble/nibble.conf", "settings of the service of the Debian package."},
};

// Escapes a line of text for roff.
std::string roff_line(std::string_view line) {
  std::string out = line.starts_with('.') || line.starts_with('\'') ? "\\&" : "";
  for (const char letter : line) {
    if (letter == '\\')
      out += "\\e";
    else if (letter == '-')
      out += "\\-";
    else
      out += letter;
  }
  return out + "\n";
}

std::string roff_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) out += roff_line(take_until(text, '\n'));
  return out;
}

std::string roff_filled(std::string_view text) { return roff_lines(wrap(text, kRoffColumns)); }

std::string verbatim(std::string_view text) {
  std::string out = ".nf\n";
  out += roff_lines(text);
  return out + ".fi\n";
}

std::string bold(std::string_view text) {
  std::string line = roff_line(text);
  line.pop_back();
  return fmt::format("\\fB{}\\fR", line);
}

std::string tagged(std::string_view tag, std::string_view text) {
  return fmt::format(".TP\n{}\n{}", bold(tag), roff_filled(text));
}

// Returns the paragraphs of a footer. Lines that begin with a space stay as they are.
std::string paragraphs(std::string_view text) {
  std::string out, paragraph, kept;
  const auto end = [&] {
    const std::string_view start = out.empty() ? "" : ".PP\n";
    if (!paragraph.empty()) out += fmt::format("{}{}", start, roff_filled(paragraph));
    if (!kept.empty()) out += fmt::format("{}{}", out.empty() ? "" : ".PP\n", verbatim(kept));
    paragraph.clear();
    kept.clear();
  };
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    const bool is_kept = line.starts_with(' ');
    if (line.empty() || (is_kept ? !paragraph.empty() : !kept.empty())) end();
    if (!line.empty()) (is_kept ? kept : paragraph) += fmt::format("{}{}", line, is_kept ? "\n" : " ");
  }
  end();
  return out;
}

struct Footer {
  std::string description, examples;
};

// Divides a command's footer at "Examples:". Leaves out the end of the footer, which is the same for all
// commands.
Footer footer_of(const std::string& text) {
  const size_t at = text.find(kExamplesTitle);  // "Example:" or "Examples:"
  Footer footer{text.substr(0, at), ""};
  if (at != std::string::npos) {
    footer.examples = text.substr(std::min(text.find('\n', at + 1) + 1, text.size()));
    footer.examples = footer.examples.substr(0, footer.examples.find("\n\n"));
  }
  footer.description.resize(std::min(footer.description.find(kSharedText), footer.description.size()));
  footer.description.erase(0, footer.description.find_first_not_of('\n'));
  return footer;
}

// Returns a command's footer without that of its parent, which every command inherits.
std::string own_footer(const CLI::App& command) {
  std::string text = command.get_footer();
  if (const CLI::App* parent = command.get_parent(); parent && text.starts_with(parent->get_footer()))
    text.erase(0, parent->get_footer().size());
  return text;
}

std::string synopsis(const CLI::App& command) {
  std::string line = bold(path_of(command));
  line += " [OPTIONS]";
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      line += fmt::format(fmt::runtime(option->get_required() ? " {}" : " [{}]"), option->get_name(true));
  if (command.get_require_subcommand_min() > 0) line += " COMMAND";
  return line + "\n";
}

std::string flag_tag(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(/*positional=*/true);
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const std::string value = option.get_expected_max() > 0 ? option.get_type_name() : "";
  return fmt::format("{}{}{}", fmt::join(names, ", "), value.empty() ? "" : " ", value);
}

// Returns the arguments and flags of a command, under the titles of their groups.
std::string flags_section(const CLI::App& command) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : command.get_options())
    if (std::ranges::find(groups, option->get_group()) == groups.end()) groups.push_back(option->get_group());
  std::string out;
  for (const std::string& group : groups) {
    if (group.empty()) continue;  // hidden flags
    if (groups.size() > 1) out += fmt::format(".SS {}\n", group);
    for (const CLI::Option* option : command.get_options())
      if (option->get_group() == group) out += tagged(flag_tag(*option), option->get_description());
  }
  return out;
}

std::vector<const CLI::App*> commands_below(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

// Converts "Exit codes: 0 done; 1 a check failed; ..." of the main footer to an entry for each code.
std::string exit_status(std::string_view text) {
  std::string joined(text.substr(text.find(kExitCodesTitle) + kExitCodesTitle.size()));
  joined.resize(joined.find(".\n\n"));
  std::ranges::replace(joined, '\n', ' ');
  std::string out;
  for (size_t at = 0; at < joined.size();) {
    size_t end = at;
    do end = joined.find("; ", end + 1);
    while (end != std::string::npos && !std::isdigit(static_cast<unsigned char>(joined[end + 2])));
    const std::string_view entry = std::string_view(joined).substr(at, end - at);
    const size_t space = entry.find(' ');
    out += tagged(entry.substr(0, space), entry.substr(space + 1));
    at = end == std::string::npos ? joined.size() : end + 2;
  }
  return out;
}

std::string tagged_rows(std::span<const Entry> rows) {
  std::string out;
  for (const Entry& row : rows) out += tagged(row.name, row.what);
  return out;
}

// Returns the day of the page: that of SOURCE_DATE_EPOCH, for builds with the same bytes, or today.
std::string page_date() {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t time = epoch ? static_cast<std::time_t>(std::atoll(epoch)) : std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&time, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

std::string below_section(const CLI::App& command, const std::string& title) {
  const Footer footer = footer_of(own_footer(command));
  std::string out =
      fmt::format(".SH {}\n{}.PP\n{}", title, synopsis(command), roff_filled(command.get_description()));
  if (const std::string text = paragraphs(footer.description); !text.empty()) out += ".PP\n" + text;
  out += flags_section(command);
  if (!footer.examples.empty()) out += ".SS Examples\n" + verbatim(footer.examples);
  return out;
}

std::string capitals(std::string_view text) {
  std::string out;
  for (const char letter : text) out += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return out;
}

std::string see_also(const CLI::App& program, const CLI::App& command) {
  std::vector<std::string> pages;
  if (&command != &program) return ".SH SEE ALSO\n.BR nibble (1)\n";
  for (const CLI::App* below : commands_below(program))
    pages.push_back(fmt::format(".BR nibble\\-{} (1)", below->get_name()));
  return fmt::format(".SH SEE ALSO\n{}\n", fmt::join(pages, ",\n"));
}

std::string page_of(const CLI::App& program, const CLI::App& command) {
  const bool is_main = &command == &program;
  const std::string name = is_main ? "nibble" : "nibble\\-" + command.get_name();
  const Footer footer = footer_of(own_footer(command));
  std::string what = command.get_description();
  std::string out = fmt::format(".TH {} 1 {} \"nibble {}\"\n.nh\n.ad l\n", capitals(name), page_date(),
                                this_build().version);
  out +=
      fmt::format(".SH NAME\n{} \\- {}", name, roff_filled(is_main ? "run OpenAI's gpt-oss models" : what));
  out += ".SH SYNOPSIS\n" + synopsis(command) + ".SH DESCRIPTION\n";
  out += is_main ? roff_filled(what) : paragraphs(footer.description.empty() ? what : footer.description);
  out += ".SH OPTIONS\n" + flags_section(command);
  for (const CLI::App* below : commands_below(command)) {
    if (is_main && below == commands_below(command).front()) out += ".SH COMMANDS\n";
    out += is_main ? tagged(below->get_name(), below->get_description())
                   : below_section(*below, capitals(below->get_name()));
  }
  out += ".SH ENVIRONMENT\n" + tagged_rows(kVariableEntries) + ".SH FILES\n" + tagged_rows(kFileEntries);
  out += ".SH EXIT STATUS\n" + exit_status(program.get_footer());
  if (!footer.examples.empty()) out += ".SH EXAMPLES\n" + verbatim(footer.examples);
  return out + see_also(program, command);
}

const CLI::App& command_called(const CLI::App& program, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_below(program)) {
    if (command->get_name() == name) return *command;
    names.push_back(command->get_name());
  }
  throw InputError("no command '{}'{} See 'nibble --help'", name, guess(name, names));
}

}  // namespace

Action define_manual(CLI::App& command, Settings&) {
  const auto name = std::make_shared<std::optional<std::string>>();
  command.add_option("COMMAND", *name, "the page of this command [of nibble]")->type_name("");
  command.footer(kManualFooter);
  const CLI::App* program = command.get_parent();
  return [name, program] {
    fmt::print("{}", page_of(*program, *name ? command_called(*program, **name) : *program));
    return kDone;
  };
}

}  // namespace nibble::cli
