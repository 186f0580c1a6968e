// --config FILE: a TOML file of flags, by their names without leading dashes.
#pragma once

namespace CLI {
class App;
}

namespace nibble::cli {

// Call this before other flags are added: CLI11 evaluates flags in the order of addition, and the command
// line and NIBBLE_* variables override the file.
void add_config_file(CLI::App& command);

}  // namespace nibble::cli
