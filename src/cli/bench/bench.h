// nibble bench: measures how fast a model runs here, and the share of the memory's bandwidth that it reaches.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_bench(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
