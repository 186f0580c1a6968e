// Log lines go to stderr, so that stdout stays what a command answers. A library of others does the work.
#pragma once

#include <spdlog/spdlog.h>

namespace nibble::log {

using spdlog::debug;
using spdlog::info;
using spdlog::warn;

// Sends everything to stderr, `level` and above. Called once, by main.
void start(spdlog::level::level_enum level);

}  // namespace nibble::log
