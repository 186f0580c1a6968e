// nibble bench: measures a model's speed on this machine and the share of memory bandwidth it reaches.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_bench(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
