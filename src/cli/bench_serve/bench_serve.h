// nibble bench serve: puts load on a server with the OpenAI API and measures what its clients see.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

// Adds the subcommand to bench. The caller runs the returned action if the subcommand was chosen.
Action define_bench_serve(CLI::App& bench);

}  // namespace nibble::cli
