// Root-mean-square norm: y[t,i] = x[t,i] / sqrt(mean_j x[t,j]^2 + eps) * g[i].
#pragma once

#include "core/tensors/view.h"
#include "model/weights.h"

namespace nibble::reference {

struct RmsNormArgs {
  View<const float, 2> x;  // [T, H]: inputs
  Vector scale;            // g [H]
  float eps;
  View<float, 2> y;  // [T, H]: receives the results
};
void rms_norm(const RmsNormArgs& args);

}  // namespace nibble::reference
