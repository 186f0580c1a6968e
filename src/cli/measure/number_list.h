#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nibble::cli {

// Adds a flag that takes several numbers: "-p 512,2048" or "-p 512 -p 2048". `values` holds the default.
CLI::Option* add_numbers(CLI::App& command, const char* flag, std::vector<std::string>& values,
                         std::string_view what);

// Parses the numbers. Throws an InputError with the flag `origin`, also for an empty element ("512,").
std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most);

}  // namespace nibble::cli
