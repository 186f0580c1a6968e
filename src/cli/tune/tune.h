// nibble tune: finds the fastest thread count and work sizes on this CPU, and stores them for all commands.
// On a GPU, prints the fastest kernel for each number of rows (tune/kernels.h).
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_tune(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
