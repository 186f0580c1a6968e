// `nibble bench serve`: load on a server with OpenAI's API, and what its clients see of it.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

// Adds the command to bench; the action is called where it was chosen.
Action define_bench_serve(CLI::App& bench);

}  // namespace nibble::cli
