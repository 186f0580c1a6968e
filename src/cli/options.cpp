#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text/number_list.h"

namespace nibble::cli {

CLI::Option* add_numbers(CLI::App& command, const char* flag, std::vector<std::string>& values,
                         std::string_view what) {
  const std::string given = values.empty() ? "" : fmt::format(" [{}]", fmt::join(values, ","));
  return take_all(add_value(command, flag, "N,N...", values, fmt::format("{}{}", what, given)));
}

std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most) {
  std::vector<int> numbers;
  for (const std::string& text : values)
    for (const int number : nibble::read_numbers(text, origin, least, most)) numbers.push_back(number);
  return numbers;
}

}  // namespace nibble::cli
