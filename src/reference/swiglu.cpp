#include "reference/swiglu.h"

#include <algorithm>
#include <cmath>

#include "core/errors/check.h"
#include "model/config.h"

namespace nibble::reference {

void swiglu(const SwigluArgs& args) {
  NIBBLE_CHECK(args.u.shape[1] == 2 * args.h.shape[1], "u [T, {}], h [T, {}]", args.u.shape[1],
               args.h.shape[1]);
  for (ptrdiff_t t = 0; t < args.h.shape[0]; ++t)
    for (ptrdiff_t i = 0; i < args.h.shape[1]; ++i) {
      const double gate = std::min(args.u(t, 2 * i), args.limit);
      const double linear = std::clamp(args.u(t, 2 * i + 1), -args.limit, args.limit);
      args.h(t, i) = static_cast<float>(gate / (1 + std::exp(double{-kSwigluAlpha} * gate)) * (linear + 1));
    }
}

}  // namespace nibble::reference
