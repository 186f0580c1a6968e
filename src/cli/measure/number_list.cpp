#include "cli/measure/number_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "core/text/number_list.h"

namespace nibble::cli {

CLI::Option* add_numbers(CLI::App& command, const char* flag, std::vector<std::string>& values,
                         std::string_view what) {
  const std::string given = values.empty() ? "" : fmt::format(" [{}]", fmt::join(values, ","));
  return command.add_option(flag, values, fmt::format("{}{}", what, given))
      ->type_name("N,N...")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most) {
  std::vector<int> numbers;
  for (const std::string& text : values)
    for (const int number : nibble::read_numbers(text, origin, least, most)) numbers.push_back(number);
  return numbers;
}

}  // namespace nibble::cli
