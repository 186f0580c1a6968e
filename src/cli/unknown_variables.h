// Reports NIBBLE_* variables that set nothing: misspelt ones, and those of settings that a command lacks.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace nibble::cli {

// Returns a warning for each NIBBLE_* variable that is not a setting, with the name of a setting that is
// spelt similarly. `environment`: a null-terminated array of "NAME=VALUE". Not reported: NIBBLE_API_KEY,
// NIBBLE_BINARY (tests), NIBBLE_SECRET, and variables such as NIBBLE_PORT that Kubernetes sets in every
// container if a service is called nibble.
std::vector<std::string> warnings_of_unknown_variables(const char* const* environment);

// Returns a note for each variable of a setting that `command` does not have. `path`: the full name of the
// command, for the note.
std::vector<std::string> notes_of_unused_variables(const CLI::App& command, const std::string& path);

}  // namespace nibble::cli
