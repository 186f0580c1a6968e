// nibble completions: prints a script with which a shell completes the commands and flags of nibble.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "core/errors/error.h"

namespace nibble::cli {
namespace {

constexpr const char* kCompletionsFooter{R"help(
'cmake --install' installs all three where the shells find them. Without it, add a line to the startup file of the shell:

Examples:
  eval "$(nibble completions bash)"     # ~/.bashrc
  eval "$(nibble completions zsh)"      # ~/.zshrc, after compinit
  nibble completions fish | source      # ~/.config/fish/config.fish)help"};

constexpr std::string_view kModels{"tiny openai/gpt-oss-20b openai/gpt-oss-120b"},
    kShellNames{"bash zsh fish"};

struct CommandFlags {
  std::string path, what;  // the path, such as " bench serve", and the description
  std::vector<const CLI::Option*> flags;
  std::vector<const CLI::App*> commands;
  // Words accepted as positional arguments. File names are completed by the shell.
  std::string arguments;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> names_of(const CLI::Option& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.get_snames()) names.push_back("-" + name);
  for (const std::string& name : flag.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& flag) { return flag.get_expected_max() > 0; }

// Returns the accepted values of a flag; empty if any text is valid, or if the flag takes no value.
std::string choices_of(const CLI::Option& flag) {
  if (flag.get_positional()) return std::string(kModels);
  if (!takes_value(flag)) return "";
  for (const Setting& setting : setting_table())
    if (flag.check_lname(std::string(setting.name)))
      return fmt::format("{}", fmt::join(choices_of(setting), " "));
  return "";
}

void collect(const CLI::App& command, const std::string& path, std::vector<CommandFlags>& found) {
  CommandFlags row{path, first_line(command.get_description()), {}, {}, {}};
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional()) row.flags.push_back(option);
    const std::string argument = option->get_positional() ? option->get_name(/*positional=*/true) : "";
    if (argument.starts_with("MODEL")) row.arguments = kModels;
    if (argument == "SHELL") row.arguments = kShellNames;
  }
  row.commands = command.get_subcommands([](const CLI::App*) { return true; });
  found.push_back(row);
  for (const CLI::App* below : row.commands) collect(*below, path + " " + below->get_name(), found);
}

std::string words_of(const CommandFlags& row) {  // all completions of a command, except flags
  std::string words;
  for (const CLI::App* command : row.commands) words += command->get_name() + " ";
  return words + row.arguments;
}

// Returns the paths of all commands as a pattern of a shell's `case`: "' bench' | ' bench serve'".
std::string paths_of(const std::vector<CommandFlags>& rows) {
  std::vector<std::string> paths;
  for (const CommandFlags& row : rows)
    if (!row.path.empty()) paths.push_back(fmt::format("'{}'", row.path));
  return fmt::format("{}", fmt::join(paths, " | "));
}

std::string bash(const std::vector<CommandFlags>& rows) {
  std::string text = fmt::format(
      R"(_nibble() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path= flags= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${{COMP_WORDS[i]}}" in
      {}) path+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path $previous" in
)",
      paths_of(rows));
  std::vector<std::string> free;  // patterns of flags that accept any text: no suggestions
  for (const CommandFlags& row : rows)
    for (const CLI::Option* flag : row.flags) {
      if (!takes_value(*flag)) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : names_of(*flag))
        patterns.push_back(fmt::format("'{} {}'", row.path, name));
      const std::string choices = choices_of(*flag);
      if (choices.empty())
        free.insert(free.end(), patterns.begin(), patterns.end());
      else
        text += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n",
                            fmt::join(patterns, " | "), choices);
    }
  text += fmt::format("    {}) return ;;\n", fmt::join(free, " | "));
  text += "  esac\n  case \"$path\" in\n";
  for (const CommandFlags& row : rows) {
    std::vector<std::string> flags;
    for (const CLI::Option* flag : row.flags) flags.push_back(flag->get_name());
    text +=
        fmt::format("    '{}') flags='{}' words='{}' ;;\n", row.path, fmt::join(flags, " "), words_of(row));
  }
  return text + R"(  esac
  [[ $word == -* ]] && words=$flags
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o bashdefault -o default -F _nibble nibble
)";
}

// Puts a backslash before each character of `special`, such as brackets, which zsh's _arguments interprets.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char letter : text) {
    if (special.find(letter) != std::string_view::npos) out += '\\';
    out += letter;
  }
  return out;
}
std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char letter : text) out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

std::string zsh_flag(const CLI::Option& flag) {
  std::string text;
  const std::string what = escaped(first_line(flag.get_description()), "[]:");
  const std::string choices = choices_of(flag);
  for (const std::string& name : names_of(flag)) {
    std::string spec = fmt::format("*{}[{}]", name, what);
    if (takes_value(flag))
      spec += fmt::format(":{}:{}", escaped(flag.get_type_name(), ":"),
                          choices.empty() ? "_files" : fmt::format("({})", choices));
    text += " \\\n        " + single_quoted(spec);
  }
  return text;
}

std::string zsh(const std::vector<CommandFlags>& rows) {
  std::string text = fmt::format(
      R"(#compdef nibble
_nibble() {{
  local chain= i
  for ((i = 2; i < CURRENT; i++)); do
    case "$chain ${{words[i]}}" in
      {}) chain+=" ${{words[i]}}" ;;
    esac
  done
  case "$chain" in
)",
      paths_of(rows));
  for (const CommandFlags& row : rows) {
    text += fmt::format("    '{}')\n      _arguments", row.path);
    for (const CLI::Option* flag : row.flags) text += zsh_flag(*flag);
    if (!row.commands.empty()) {
      std::string commands;
      for (const CLI::App* command : row.commands)
        commands += fmt::format("{}\\:{} ", command->get_name(),
                                single_quoted(escaped(first_line(command->get_description()), ":()\\")));
      text += " \\\n        " + single_quoted(fmt::format("*:command:(({}))", commands));
    } else {
      text +=
          " \\\n        " + single_quoted(fmt::format("*:argument:{{compadd -- {}; _files}}", row.arguments));
    }
    text += " ;;\n";
  }
  return text + R"(  esac
}
if [ "$funcstack[1]" = _nibble ]; then _nibble "$@"; else compdef _nibble nibble; fi
)";
}

std::string fish(const std::vector<CommandFlags>& rows) {
  std::string text;
  for (const CommandFlags& row : rows) {
    std::string condition;  // fish code that is true if all words of the command's path have been typed
    for (size_t begin = 0; begin < row.path.size();) {
      const size_t end = std::min(row.path.find(' ', begin + 1), row.path.size());
      condition += fmt::format("{}__fish_seen_subcommand_from{}", condition.empty() ? "" : "; and ",
                               row.path.substr(begin, end - begin));
      begin = end;
    }
    const std::string at = fmt::format(
        "complete -c nibble -n {}", single_quoted(condition.empty() ? "__fish_use_subcommand" : condition));
    for (const CLI::App* command : row.commands)
      text += fmt::format("{} {}-a {} -d {}\n", at, row.arguments.empty() ? "-f " : "", command->get_name(),
                          single_quoted(first_line(command->get_description())));
    if (!row.arguments.empty()) text += fmt::format("{} -a {}\n", at, single_quoted(row.arguments));
    for (const CLI::Option* flag : row.flags) {
      text += at;
      for (const std::string& name : flag->get_snames()) text += " -s " + name;
      for (const std::string& name : flag->get_lnames()) text += " -l " + name;
      if (takes_value(*flag)) text += " -r";
      if (const std::string choices = choices_of(*flag); !choices.empty())
        text += fmt::format(" -f -a {}", single_quoted(choices));
      text += fmt::format(" -d {}\n", single_quoted(first_line(flag->get_description())));
    }
  }
  return text;
}

struct Shell {
  std::string_view name;
  std::string (*completions)(const std::vector<CommandFlags>& rows);
};
constexpr Shell kShells[]{{"bash", &bash}, {"zsh", &zsh}, {"fish", &fish}};

int print_completions(const CLI::App& program, const std::string& name) {
  std::vector<CommandFlags> rows;
  collect(program, "", rows);
  for (const Shell& shell : kShells)
    if (shell.name == name) {
      fmt::print("{}", shell.completions(rows));
      return kDone;
    }
  throw InputError("no completions for '{}': expected one of {}", name, kShellNames);
}

}  // namespace

Action define_completions(CLI::App& command, Settings&) {
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash, zsh or fish")->required()->type_name("");
  command.footer(kCompletionsFooter);
  return [shell, &command] { return print_completions(*command.get_parent(), *shell); };
}

}  // namespace nibble::cli
