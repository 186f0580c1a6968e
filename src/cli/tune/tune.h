// nibble tune: measures which sizes of work pieces are fastest on this CPU, and keeps them for all commands; on a GPU, which kernel is
// fastest for how many rows, and prints that (tune/kernels.h).
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_tune(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
