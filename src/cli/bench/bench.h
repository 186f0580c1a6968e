// nibble bench: measures the speed of a model on this machine, and the share of the
// memory bandwidth that it reaches.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_bench(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
