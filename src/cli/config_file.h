// --config FILE: a TOML file with flags, whose names have no leading dashes.
#pragma once

namespace CLI {
class App;
}

namespace nibble::cli {

// Adds --config. Call this before other flags are added: CLI11 evaluates flags in the order of addition, and
// flags and NIBBLE_* variables must be able to override the file.
void add_config_file(CLI::App& command);

}  // namespace nibble::cli
