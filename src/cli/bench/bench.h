// nibble bench: how fast a model runs here, and which share of the memory's bandwidth that takes.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_bench(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
