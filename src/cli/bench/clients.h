// nibble bench clients: measures the engine under many clients, without HTTP (bench serve includes HTTP).
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct ClientsOptions {
  std::string model;
  std::vector<int> num_clients;              // one load for each number of clients
  int num_prompt_tokens, num_output_tokens;  // per request; at least 1 and 2
  int num_repetitions{5};
};

RunOutput bench_clients(const ClientsOptions& options, const Settings& settings,
                        const std::string& command_line);  // throws InputError

Action define_bench_clients(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
