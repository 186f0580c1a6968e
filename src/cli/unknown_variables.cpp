#include "cli/unknown_variables.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/program/settings.h"
#include "core/text/near_name.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kPrefix{"NIBBLE_"};

bool is_of_others(std::string_view name) {
  return name == "NIBBLE_API_KEY" || name == "NIBBLE_BINARY" || name == "NIBBLE_SECRET" ||
         name == "NIBBLE_PORT" || name.starts_with("NIBBLE_PORT_") || name.starts_with("NIBBLE_SERVICE_");
}

}  // namespace

std::vector<std::string> warnings_of_unknown_variables(const char* const* environment) {
  std::vector<std::string> names{"API_KEY", "SECRET"}, warnings;  // names without the prefix NIBBLE_
  for (const Setting& setting : setting_table()) names.push_back(variable(setting).substr(kPrefix.size()));
  for (; *environment; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || is_of_others(name)) continue;
    const std::string_view rest = name.substr(kPrefix.size());
    if (std::ranges::find(names, rest) == names.end())
      warnings.push_back(
          fmt::format("unknown variable {}{} See 'nibble --help'", name, guess(rest, names, kPrefix)));
  }
  return warnings;
}

std::vector<std::string> notes_of_unused_variables(const CLI::App& command, const std::string& path) {
  std::vector<std::string> notes;
  for (const Setting& setting : setting_table())
    if (std::getenv(variable(setting).c_str()) && !command.get_option_no_throw(flag(setting)))
      notes.push_back(fmt::format("{} is set, but '{}' does not use it", variable(setting), path));
  return notes;
}

}  // namespace nibble::cli
