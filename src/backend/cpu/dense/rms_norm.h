// RMS norm of a row: y[i] = x[i] / sqrt(mean_j x[j]^2 + eps) * g[i], i < g.count. x and g are in natural
// order, y in split order.
#pragma once

#include "model/weights.h"

namespace nibble::cpu {

void rms_norm(const float* x, const Vector& g, float eps, float* y);

}  // namespace nibble::cpu
