// nibble inspect: shows a model's parts, the memory it needs, and the kernels that would run it.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_inspect(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
