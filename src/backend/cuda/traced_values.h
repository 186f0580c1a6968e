// Copies results of a step's operations to the host, as float32, for Backend::trace(). Each function waits
// for the launches in the step's stream.
#pragma once

#include <vector>

#include "backend/cuda/operations.h"

namespace nibble::cuda {

// Returns the output of attend(), [num_rows, Nq D]. Call it before the next layer's attend() is launched.
std::vector<float> attended_values(const Step& step, int num_rows);
// Returns the residual stream, [num_rows, H]: the sum of all terms of `x` (norm_input.h).
std::vector<float> residual_values(const Step& step, const ResidualInput& x, int num_rows);

}  // namespace nibble::cuda
