// nibble tune: measures which sizes of work pieces are fastest on this CPU, and keeps them for all commands.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_tune(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
