// nibble eval: how right a model is: perplexity, tasks, agreement with golden data.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_eval(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
