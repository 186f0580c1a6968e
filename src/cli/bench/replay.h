// nibble bench replay: runs the same requests alternately with and without drafts.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct ReplayOptions {
  std::string model;
  std::string file;    // JSON lines, one request per line
  int num_clients{1};  // concurrent requests
  int num_repetitions{5}, num_warmups{1};
};

RunOutput replay(const ReplayOptions& options, const Settings& settings,
                 const std::string& command_line);  // throws InputError

Action define_bench_replay(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
