// Parses the value of a flag, a list like "512,2048" of whole numbers from `least` to `most`. On any other
// text throws an InputError that names the flag (`origin`) and the accepted numbers, which `what` describes.
#pragma once

#include <string_view>
#include <vector>

namespace nibble {

std::vector<int> read_numbers(std::string_view list, std::string_view origin, int least, int most,
                              std::string_view what = "whole numbers");

}  // namespace nibble
