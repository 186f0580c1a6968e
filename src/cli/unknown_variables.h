// Warns of NIBBLE_* variables that set nothing, such as misspelt ones.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

// Returns a warning with the nearest setting's name for each NIBBLE_* variable that sets nothing.
// `environment`: a null-terminated array of "NAME=VALUE". Not reported: NIBBLE_BINARY (tests), NIBBLE_SECRET,
// and variables such as NIBBLE_PORT that Kubernetes sets in every container if a service is called nibble.
std::vector<std::string> warnings_of_unknown_variables(const char* const* environment);

}  // namespace nibble::cli
