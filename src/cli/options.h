// Functions that add a flag to a command: for one value, or for a list of numbers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// Adds a flag that takes a value. The help shows `type` after the flag's name.
template <typename Value>
CLI::Option* add_value(CLI::App& command, const std::string& flag, const std::string& type, Value& value,
                       const std::string& what) {
  return command.add_option(flag, value, what)->type_name(type);
}

// Lets the user repeat a flag, with one value each time, and keeps all values.
inline CLI::Option* take_all(CLI::Option* option) {
  return option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Adds a flag that takes several numbers: "-p 512,2048" or "-p 512 -p 2048". `values` holds the default.
CLI::Option* add_numbers(CLI::App& command, const char* flag, std::vector<std::string>& values,
                         std::string_view what);

// Parses the numbers. Throws an InputError with the flag `origin`, also for an empty element ("512,").
std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most);

}  // namespace nibble::cli
