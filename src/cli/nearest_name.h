#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// Returns the name with the smallest edit distance (Levenshtein) to `name`. `names` must not be empty.
const std::string& nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace nibble::cli
