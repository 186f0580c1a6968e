// The activation of gpt-oss's experts: a SwiGLU with alternating rows, clamped, whose linear part is shifted by one.
//
//   h[t,i] = g sigmoid(1.702 g) (l + 1)      g = min(u[t,2i], limit)      l = clamp(u[t,2i+1], -limit, limit)
//
// The gate has no lower bound: the sigmoid closes it there.
#pragma once

#include "core/view.h"

namespace nibble::reference {

struct SwigluArgs {
  View<const float, 2> u;  // [T, 2I]: gate and linear part alternate
  float limit;
  View<float, 2> h;  // [T, I]
};
void swiglu(const SwigluArgs& args);

}  // namespace nibble::reference
