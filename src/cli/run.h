// nibble run: answers one prompt.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_run(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
