#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_models(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
