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

// Adds such a flag. The default is what `values` holds, which the help then names after `what`.
CLI::Option* add_numbers(CLI::App& command, const char* flag, std::vector<std::string>& values,
                         std::string_view what);

// The numbers in all values of a flag. Throws InputError that names the flag, `origin`, and says what is accepted. CLI11's own lists
// would drop an empty item ("512,") without a word.
std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most);

}  // namespace nibble::cli
