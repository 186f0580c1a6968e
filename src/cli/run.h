// nibble run: answers a single prompt.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_run(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
