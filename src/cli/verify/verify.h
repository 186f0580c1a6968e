// nibble verify: probes this machine's device and checks all rows of its kernel tables in separate processes.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_verify(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
