// nibble bench serve: puts load on a server with the OpenAI API and measures what its clients see.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_bench_serve(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
