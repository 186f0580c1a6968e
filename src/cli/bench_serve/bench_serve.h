// nibble bench serve: puts load on a server with the OpenAI API; measures latency and throughput.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_bench_serve(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
