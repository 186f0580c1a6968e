#include "cli/measure/number_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "core/error.h"

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
  for (const std::string& text : values) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      int number{};
      const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, number);
      if (error != std::errc{} || stop != text.data() + end || number < least || number > most)
        throw InputError("{} '{}': expected whole numbers from {} to {}, separated by commas", origin, text,
                         least, most);
      numbers.push_back(number);
      begin = end + 1;
    }
  }
  return numbers;
}

}  // namespace nibble::cli
