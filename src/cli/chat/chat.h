// nibble chat: a conversation in the terminal.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_chat(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
