// nibble bench --replay: the same requests through an engine, without drafts and with those of --speculate, in turns.
#pragma once

#include <string>

#include "cli/measure/run_record.h"
#include "core/settings.h"

namespace nibble::cli {

struct ReplayOptions {
  std::string model;
  std::string file;    // JSON lines, one for each request
  int num_clients{1};  // requests that run at once
  int num_repetitions{5};
};

// Throws InputError.
RunOutput replay(const ReplayOptions& options, const Settings& settings, const std::string& command_line);

}  // namespace nibble::cli
