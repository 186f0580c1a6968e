// nibble inspect: shows what a model consists of, what memory it needs and which kernels would run it.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_inspect(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
