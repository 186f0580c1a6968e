#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/errors/error.h"
#include "core/text/near_name.h"

namespace nibble::cli {
namespace {

const char* title(SettingGroup group) {
  switch (group) {
    case SettingGroup::kInstruction:
    case SettingGroup::kDate:
      return "Instructions";
    case SettingGroup::kSampling:
    case SettingGroup::kAnswer:
    case SettingGroup::kDetail:
      return "Sampling";
    case SettingGroup::kMachine:
    case SettingGroup::kBatch:
    case SettingGroup::kCache:
    case SettingGroup::kDrafts:
    case SettingGroup::kDevice:
    case SettingGroup::kGpus:
    case SettingGroup::kNodes:
      return "Machine";
    case SettingGroup::kPlaces:
    case SettingGroup::kChat:
      return "Places";
  }
  return "";
}

std::string off_flag(const Setting& setting) { return fmt::format("--{}", setting.off); }

// Returns the NIBBLE_* variable; null if unset, if its flag is given, or if the command lacks the setting.
const char* value_of_variable(const CLI::App& command, const Setting& setting) {
  const CLI::Option *option = command.get_option_no_throw(flag(setting)),
                    *off = setting.off.empty() ? nullptr : command.get_option_no_throw(off_flag(setting));
  return option && option->count() == 0 && !(off && off->count() > 0) ? std::getenv(variable(setting).c_str())
                                                                      : nullptr;
}

// Published records must not contain keys.
bool is_secret(const CLI::Option& option) { return option.get_name() == "--api-key"; }

// Returns the long names of all flags, without dashes.
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back(name);
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// Flags that `nibble bench` had in earlier versions, and what replaces them.
constexpr std::pair<std::string_view, std::string_view> kMovedFlagsOfBench[]{
    {"--clients", "use 'nibble bench clients MODEL --clients N,N...'"},
    {"--replay", "use 'nibble bench replay MODEL FILE'"},
    {"--acceptance", "use 'nibble bench acceptance MODEL PROFILE...'"},
    {"--compare", "use 'nibble bench compare A B'"},
    {"--speculate",
     "random tokens can't be drafted; use 'nibble bench replay MODEL FILE' or 'nibble bench acceptance MODEL "
     "PROFILE...'"},
    {"--speculative-config", "random tokens can't be drafted; use 'nibble bench replay MODEL FILE'"},
};

// Returns what replaces a flag that the command had in an earlier version; empty for any other flag.
std::string_view moved_to(const std::string& path, const std::string& flag) {
  const std::string_view name = std::string_view(flag).substr(0, flag.find('='));
  if (path != "nibble bench") return "";
  for (const auto& [moved, instead] : kMovedFlagsOfBench)
    if (moved == name) return instead;
  return "";
}

}  // namespace

CLI::Option* add_model(CLI::App& command, std::string& model) {
  return command
      .add_option("-m,--model,MODEL", model,
                  "a folder, a file, a bundled name (tiny), a Hugging Face cache entry on disk\n"
                  "(openai/gpt-oss-20b), or synthetic:gpt-oss-20b")
      ->required()
      ->type_name("");
}

std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent ? fmt::format("{} {}", path_of(*parent), command.get_name()) : command.get_name();
}

void add_settings(CLI::App& command, Settings& settings, std::initializer_list<SettingGroup> groups) {
  for (const Setting& setting : setting_table()) {
    if (std::ranges::find(groups, setting.group) == groups.end()) continue;
    const auto assign = [&settings, &setting](const std::vector<std::string>& values) {
      for (const std::string& value : values) set(settings, setting, value, flag(setting));
      return true;
    };
    std::string names = flag(setting);
    if (!setting.letter.empty()) names = fmt::format("-{},{}", setting.letter, names);
    if (!setting.also.empty()) names += fmt::format(",--{}", setting.also);
    const std::string help = fmt::format("{} [{}]", setting.help, default_of(setting));
    if (setting.value.empty()) {  // a flag without a value
      const auto turn_on = [&settings, &setting] { set(settings, setting, "on", flag(setting)); };
      command.add_flag_callback(names, turn_on, help)->group(title(setting.group));
      continue;
    }
    CLI::Option* option = command.add_option_function<std::vector<std::string>>(names, assign, help);
    // The last of several values counts, so a script can put its defaults first.
    option->expected(1)->allow_extra_args(false)->type_name(std::string(setting.value));
    option->group(title(setting.group));
    const bool is_list = std::holds_alternative<TextListField>(setting.field);
    option->multi_option_policy(is_list ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
    if (setting.off.empty()) continue;
    command
        .add_flag_callback(
            off_flag(setting), [&settings, &setting] { set(settings, setting, "off", off_flag(setting)); },
            fmt::format("same as {} off, and takes precedence over it", flag(setting)))
        ->group(title(setting.group));
  }
}

void read_environment(const CLI::App& command, Settings& settings) {
  for (const Setting& setting : setting_table())
    if (const char* value = value_of_variable(command, setting))
      set(settings, setting, value, variable(setting));
}

const CLI::App& chosen_command(const CLI::App& program) {
  const auto commands = program.get_subcommands();
  return commands.empty() ? program : chosen_command(*commands.front());
}

void check_nothing_before(const CLI::App& command, const CLI::App& given) {
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0)
      throw InputError("{} has to follow the command: {} ...",
                       option->get_positional() ? "MODEL" : option->get_name(), path_of(given));
}

bool is_given(const CLI::App& command, const CLI::Option& option) {
  if (option.count() > 0) return true;
  for (const Setting& setting : setting_table()) {
    const std::string on = flag(setting), off = setting.off.empty() ? on : off_flag(setting);
    if (option.get_name() != on && option.get_name() != off) continue;
    return command.get_option(on)->count() > 0 || command.get_option(off)->count() > 0 ||
           std::getenv(variable(setting).c_str());
  }
  return false;
}

std::string command_line(const CLI::App& command) {
  std::string line;
  for (const Setting& setting : setting_table())
    if (const char* value = value_of_variable(command, setting))
      line += fmt::format("{}={} ", variable(setting), value);
  line += path_of(command);
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_positional() ? "" : " " + option->get_name();
    const bool takes_value = option->get_expected_max() > 0;
    for (const std::string& value : option->results())
      line += name + (!takes_value ? "" : " " + (is_secret(*option) ? "..." : value));
  }
  return line;
}

std::string explain(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App& command = chosen_command(program);
  const std::string path = path_of(command);
  // A missing subcommand is an error only if the command requires one.
  const std::vector<std::string> commands =
      command.get_require_subcommand_min() > 0 ? commands_of(command) : std::vector<std::string>();
  for (const std::string& extra : program.remaining(/*recurse=*/true)) {
    if (const std::string_view instead = moved_to(path, extra); !instead.empty())
      return fmt::format("no flag '{}' here: {}", extra, instead);
    if (extra.starts_with("-")) {
      const std::string name = extra.substr(std::min(extra.find_first_not_of('-'), extra.size()));
      const std::string end = guess(name.substr(0, name.find('=')), flags_of(command), "--");
      return fmt::format("unknown flag '{}'{} See '{} --help'", extra, end, path);
    }
    if (const auto near = near_name(extra, commands))
      return fmt::format("unknown command '{}': did you mean '{} {}'?", extra, path, *near);
    if (!commands.empty())
      return fmt::format("unknown command '{}'; '{}' accepts {}", extra, path, fmt::join(commands, ", "));
    return fmt::format("unexpected argument '{}' for '{}'; quote a text of several words", extra, path);
  }
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return fmt::format("{} is required; see '{} --help'", option->get_name(option->get_positional()), path);
  if (!commands.empty()) return fmt::format("'{}' needs a command: {}", path, fmt::join(commands, ", "));
  return fmt::format("{}; see '{} --help'", error.what(), path);
}

}  // namespace nibble::cli
