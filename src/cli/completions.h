// nibble completions: prints a script with which a shell completes the commands and flags of nibble.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_completions(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
