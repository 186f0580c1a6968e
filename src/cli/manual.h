// nibble manual: prints a manual page in roff, made from the help of the commands.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_manual(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
