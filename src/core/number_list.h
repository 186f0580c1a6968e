// Parses a flag like "512,2048": whole numbers from `least` to `most`; an empty item is an error. Throws an
// InputError that names the flag (`origin`) and what is accepted; `what` describes the numbers.
#pragma once

#include <string_view>
#include <vector>

namespace nibble {

std::vector<int> read_numbers(std::string_view list, std::string_view origin, int least, int most,
                              std::string_view what = "whole numbers");

}  // namespace nibble
