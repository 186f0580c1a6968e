// nibble bench clients: measures the engine with many clients, but without HTTP (bench serve includes HTTP).
#pragma once

#include <string>
#include <vector>

#include "cli/bench/bench_flags.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct ClientsOptions : BenchFlags {
  std::vector<int> num_clients;  // numbers of concurrent clients, each measured separately
  // Tokens per request: of the prompt (at least 1) and of the answer (at least 2).
  int num_prompt_tokens{512}, num_output_tokens{128};
  std::string preset_run;  // preset and run, such as "spark: ladder-qkv-o"; empty: no preset
};

RunOutput bench_clients(const ClientsOptions& options, const Settings& settings,
                        const std::string& command_line);  // throws InputError

}  // namespace nibble::cli
