// nibble harmony: turns a conversation into text and token ids, and token ids into messages.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_harmony(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
