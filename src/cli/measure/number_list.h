// Flags that take several numbers: "-p 512,2048" or "-p 512 -p 2048".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nibble::cli {

// Adds a flag that takes several numbers. The content of `values` is the default; the help shows it after
// `what`.
CLI::Option* add_numbers(CLI::App& command, const char* flag, std::vector<std::string>& values,
                         std::string_view what);

// Returns the numbers in all values of a flag. Throws an InputError that names the flag (`origin`) and what
// is accepted. CLI11's own lists would silently drop an empty item ("512,").
std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most);

}  // namespace nibble::cli
