// nibble bench --clients: the engine's own speed under the load of many clients, without HTTP. Beside what bench serve says of a server it
// shows what HTTP takes.
#pragma once

#include <string>
#include <vector>

#include "cli/measure/run_record.h"
#include "core/settings.h"

namespace nibble::cli {

struct ClientsOptions {
  std::string model;
  std::vector<int> num_clients;              // a load each
  int num_prompt_tokens, num_output_tokens;  // of each request; at least 1
  int num_repetitions{5};
};

// Throws InputError.
RunOutput bench_clients(const ClientsOptions& options, const Settings& settings,
                        const std::string& command_line);

}  // namespace nibble::cli
