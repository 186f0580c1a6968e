// Warns of NIBBLE_* variables that set nothing, such as misspelt ones.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

// One warning per variable of `environment` (null-terminated array of "NAME=VALUE") that begins with NIBBLE_
// and is no setting, with the nearest setting. Exempt: variables that Kubernetes sets in every container if a
// service is called nibble (NIBBLE_PORT, ...), the tests' NIBBLE_BINARY, and NIBBLE_SECRET.
std::vector<std::string> warnings_of_unknown_variables(const char* const* environment);

}  // namespace nibble::cli
