// Flags that take several numbers: "-p 512,2048" or "-p 512 -p 2048".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// The numbers in all values of a flag. Throws InputError that names the flag, `origin`, and says what is accepted. CLI11's own lists
// would drop an empty item ("512,") without a word.
std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most);

}  // namespace nibble::cli
