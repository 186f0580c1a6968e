// nibble tokenize: turns text into token ids and back.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_tokenize(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
