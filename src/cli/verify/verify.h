// nibble verify: probes the device of this machine, and checks every row of the kernel tables on it,
// each in a separate process.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_verify(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
