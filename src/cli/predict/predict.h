// nibble predict: predicts from a cost model how fast a model would run on a GPU that this machine may not
// have, and how much would fit into its memory.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_predict(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
