// nibble harmony: a conversation to text and token ids, and back.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_harmony(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
