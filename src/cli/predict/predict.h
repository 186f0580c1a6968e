// nibble predict: how fast a model would run on a GPU that need not be here, from a cost model, and what of it would fit.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_predict(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
