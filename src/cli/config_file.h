// --config FILE: reads flags of a command from a TOML file, by their names without leading dashes.
#pragma once

namespace CLI {
class App;
}

namespace nibble::cli {

// Adds the flag --config. The command line and NIBBLE_* variables take precedence over the file. Call this
// before other flags are added, because CLI11 evaluates flags in the order in which they were added.
void add_config_file(CLI::App& command);

}  // namespace nibble::cli
