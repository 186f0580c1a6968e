// Copies what operations of a step computed to the host, as float32, for Backend::trace(). Each function
// waits for the launches in the step's stream.
#pragma once

#include <vector>

#include "backend/cuda/operations.h"

namespace nibble::cuda {

// The output of attend(), before the next layer's attention: [num_rows, Nq D].
std::vector<float> attended_values(const Step& step, int num_rows);
// The residual stream: the sum of all terms of `x` (norm_input.h): [num_rows, H].
std::vector<float> residual_values(const Step& step, const ResidualInput& x, int num_rows);

}  // namespace nibble::cuda
