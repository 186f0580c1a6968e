// The gate of gpt-oss's experts: interleaved, clamped, and with the linear part shifted by one.
//
//   h[t,i] = g sigmoid(1.702 g) (l + 1)      g = min(u[t,2i], limit)      l = clamp(u[t,2i+1], -limit, limit)
//
// The gate has no lower bound: the sigmoid closes it there.
#pragma once

#include "core/view.h"

namespace nibble::reference {

struct SwigluArgs {
  View<const float, 2> u;  // [T, 2I]: gate and linear part in turn
  float limit;
  View<float, 2> h;  // [T, I]
};
void swiglu(const SwigluArgs& args);

}  // namespace nibble::reference
