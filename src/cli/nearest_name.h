#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// The name with the smallest edit distance (Levenshtein) to an unknown `name`. `names` must not be empty.
const std::string& nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace nibble::cli
