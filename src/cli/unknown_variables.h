// NIBBLE_* variables that set nothing: a misspelt one would go unnoticed.
#pragma once

#include <string>
#include <vector>

namespace nibble::cli {

// A warning for each variable of `environment` ("NAME=VALUE", up to a null) that begins with NIBBLE_ and is no setting's: it names the
// nearest one. They are not refused, since others set such names too: Kubernetes gives each container NIBBLE_PORT and NIBBLE_SERVICE_HOST
// where a service is called nibble. Those, NIBBLE_BINARY, which tells tests what to run, and NIBBLE_SECRET, which is in no file of settings, are no slips: nothing is said of them.
std::vector<std::string> warnings_of_unknown_variables(const char* const* environment);

}  // namespace nibble::cli
