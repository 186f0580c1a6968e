// nibble inspect: what a model consists of, what it needs, what runs it.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_inspect(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
