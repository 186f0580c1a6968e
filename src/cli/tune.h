// nibble tune: measures how the CPU's work is best cut on this machine, and keeps that for all commands.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_tune(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
