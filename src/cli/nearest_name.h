// Suggests the known name closest to an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::cli {

// The one with the fewest letters to insert, delete or replace (Levenshtein). `names` must not be empty.
const std::string& nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace nibble::cli
