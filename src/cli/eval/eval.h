// nibble eval: measures quality by perplexity, by tasks with exact answers, or against golden data.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_eval(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
