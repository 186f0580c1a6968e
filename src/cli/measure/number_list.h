// Flags that take several numbers: "-p 512,2048" or "-p 512 -p 2048".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// Of all values of a flag. Throws InputError that says what is accepted; `origin` is the flag that said it.
std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most);

}  // namespace nibble::cli
