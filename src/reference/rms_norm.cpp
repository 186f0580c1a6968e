#include "reference/rms_norm.h"

#include <cmath>

#include "reference/weight_row.h"

namespace nibble::reference {

void rms_norm(const RmsNormArgs& args) {
  const ptrdiff_t hidden = args.x.shape[1];
  NIBBLE_CHECK(args.scale.count == hidden, "scale [{}], x [T, {}]", args.scale.count, hidden);
  for (ptrdiff_t t = 0; t < args.x.shape[0]; ++t) {
    const float* x = args.x.row(t);
    const double mean_square = dot(x, x, hidden) / static_cast<double>(hidden);
    const double inverse = 1 / std::sqrt(mean_square + double{args.eps});
    for (ptrdiff_t i = 0; i < hidden; ++i)
      args.y(t, i) = static_cast<float>(double{x[i]} * inverse * double{args.scale[i]});
  }
}

}  // namespace nibble::reference
