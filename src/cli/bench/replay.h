// nibble bench replay: runs the same requests through an engine, alternating between no drafts and the
// drafts of --speculate.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/measure/run_record.h"

namespace nibble::cli {

struct ReplayOptions {
  std::string model;
  std::string file;    // JSON lines, one request per line
  int num_clients{1};  // concurrent requests
  int num_repetitions{5};
};

// Runs the measurement and returns its table and record. Throws InputError.
RunOutput replay(const ReplayOptions& options, const Settings& settings, const std::string& command_line);

Action define_bench_replay(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
