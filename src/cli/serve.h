// nibble serve: runs the HTTP server with the OpenAI API.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_serve(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
