// nibble predict: predicts speed and memory of a model from a cost model, for GPUs that may be absent here.
#pragma once

#include "cli/command.h"

namespace nibble::cli {

Action define_predict(CLI::App& command, Settings& settings);

}  // namespace nibble::cli
