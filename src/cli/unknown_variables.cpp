#include "cli/unknown_variables.h"

#include <fmt/format.h>

#include <string_view>

#include "cli/nearest_name.h"
#include "core/settings.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kPrefix{"NIBBLE_"};

bool is_of_others(std::string_view name) {
  return name == "NIBBLE_BINARY" || name == "NIBBLE_SECRET" || name == "NIBBLE_PORT" ||
         name.starts_with("NIBBLE_PORT_") || name.starts_with("NIBBLE_SERVICE_");
}

}  // namespace

std::vector<std::string> warnings_of_unknown_variables(const char* const* environment) {
  std::vector<std::string> names, warnings;
  for (const Setting& setting : setting_table()) names.push_back(variable(setting));
  for (; *environment; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || is_of_others(name)) continue;
    const std::string& nearest = nearest_name(name, names);
    if (nearest != name)
      warnings.push_back(
          fmt::format("unknown variable {}: did you mean {}? See 'nibble --help'", name, nearest));
  }
  return warnings;
}

}  // namespace nibble::cli
