// --config FILE: flags of a command from a TOML file, by their names without dashes.
#pragma once

namespace CLI {
class App;
}

namespace nibble::cli {

// Adds the flag. What the file has is set unless the command line or a NIBBLE_* variable sets it. Must be called before other flags are added,
// because CLI11 evaluates flags in this order.
void add_config_file(CLI::App& command);

}  // namespace nibble::cli
