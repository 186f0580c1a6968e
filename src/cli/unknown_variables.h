// Warns of NIBBLE_* variables that set nothing, such as misspelt ones.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

// Returns a warning, with the nearest setting, for each NIBBLE_* variable in `environment` (null-terminated
// array of "NAME=VALUE") that is no setting. Exempt: variables that Kubernetes sets in every container if a
// service is called nibble (NIBBLE_PORT, ...), the tests' NIBBLE_BINARY, and NIBBLE_SECRET.
std::vector<std::string> warnings_of_unknown_variables(const char* const* environment);

}  // namespace nibble::cli
