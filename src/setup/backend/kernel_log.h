// The kernels of a loaded model as lines of the log.
#pragma once

#include <string>
#include <string_view>

#include "backend/backend.h"

namespace nibble {

// Returns the shape of an operation's weights, "[32, 5760, 2880]"; for attend and append: the heads and their
// width.
std::string shape_text(Operation operation, const Config& config);
// Returns the numbers of tokens of a step for which the kernel runs: "1", "2-64", "65-" or "any".
std::string rows_text(const KernelChoice& row);

// Returns the line to log, such as "experts up [32, 5760, 2880]: weights MXFP4 (E8M0 per 32), activations
// BF16, rows 1-8: NAME (REASON)".
std::string kernel_text(const KernelChoice& row, const Config& config);

// Logs one line per kernel at level info.
void log_kernels(const Backend& backend, std::string_view model);

}  // namespace nibble
