// nibble convert: writes a model as a GGUF file or a checkpoint folder.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_convert(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
