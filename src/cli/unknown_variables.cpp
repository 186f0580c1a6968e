#include "cli/unknown_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/settings.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kPrefix{"NIBBLE_"};

bool is_of_others(std::string_view name) {
  return name == "NIBBLE_BINARY" || name == "NIBBLE_SECRET" || name == "NIBBLE_PORT" ||
         name.starts_with("NIBBLE_PORT_") || name.starts_with("NIBBLE_SERVICE_");
}

// Letters to insert, delete or replace to make one of the other (Levenshtein).
size_t num_slips(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // from the first letters of a to the first j of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> warnings_of_unknown_variables(const char* const* environment) {
  std::vector<std::string> names, warnings;
  for (const Setting& setting : setting_table()) names.push_back(variable(setting));
  for (; *environment; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || is_of_others(name)) continue;
    const auto nearest = std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
      return num_slips(name, a) < num_slips(name, b);
    });
    if (*nearest != name)
      warnings.push_back(
          fmt::format("{} sets nothing: did you mean {}? 'nibble --help' says which variables there are",
                      name, *nearest));
  }
  return warnings;
}

}  // namespace nibble::cli
