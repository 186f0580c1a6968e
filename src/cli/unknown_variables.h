// Finds NIBBLE_* variables that set nothing: otherwise a misspelt one would go unnoticed.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

// Returns a warning for each variable of `environment` (null-terminated array of "NAME=VALUE") that begins
// with NIBBLE_ and is not a setting; the warning names the nearest setting. No warning for names that are set
// on purpose: the variables that Kubernetes sets in every container if a service is called nibble
// (NIBBLE_PORT, NIBBLE_SERVICE_HOST, ...), NIBBLE_BINARY, the program that tests run, and NIBBLE_SECRET,
// which is not in the table of settings.
std::vector<std::string> warnings_of_unknown_variables(const char* const* environment);

}  // namespace nibble::cli
