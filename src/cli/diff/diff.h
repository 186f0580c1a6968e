// nibble diff: finds the first layer and operation in which two backends, formats or builds differ.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_diff(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
