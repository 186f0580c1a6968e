// The clamped SwiGLU of gpt-oss's experts. Gate and linear part alternate; the linear part is shifted by 1.
//   h[t,i] = g sigmoid(1.702 g) (l + 1)      g = min(u[t,2i], limit)      l = clamp(u[t,2i+1], -limit, limit)
// The gate has no lower bound: for very negative gates the sigmoid goes to 0.
#pragma once

#include "core/tensors/view.h"

namespace nibble::reference {

struct SwigluArgs {
  View<const float, 2> u;  // [T, 2I]: gate and linear part alternate
  float limit;
  View<float, 2> h;  // [T, I]: receives h
};
void swiglu(const SwigluArgs& args);

}  // namespace nibble::reference
