// nibble predict: predicts a model's speed and memory on a GPU that may be absent here, from a cost model.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_predict(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
