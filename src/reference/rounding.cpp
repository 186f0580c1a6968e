#include "reference/rounding.h"

#include <algorithm>
#include <cmath>

#include "core/errors/check.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"

namespace nibble::reference {
namespace {

constexpr ptrdiff_t kBlock{32};

void round_block(const float* x, float* y) {
  float largest = 0;
  for (ptrdiff_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(x[i]));
  const float inverse = largest >= 0x1p-120f ? 127 / largest : 0;
  const float scale = 2 * (largest / 254);
  for (ptrdiff_t i = 0; i < kBlock; ++i) y[i] = std::nearbyint(x[i] * inverse) * scale;
}

}  // namespace

float round_to(Format kv, float value) {
  if (kv == Format::kBf16) return to_float(to_bf16(value));
  return kv == Format::kE4m3 ? to_float(to_e4m3(value)) : value;
}

bool takes_int8(const Rounding& rounding, const Matrix& weight) {
  const Format stored = weight.format();
  return rounding.int8_activations && (stored == Format::kMxfp4 || stored == Format::kQ8_0);
}

Array<float, 2> rounded_to_int8(View<const float, 2> x) {
  NIBBLE_CHECK(x.shape[1] % kBlock == 0, "rows of {} elements", x.shape[1]);
  Array<float, 2> y({x.shape[0], x.shape[1]});
  for (ptrdiff_t t = 0; t < x.shape[0]; ++t)
    for (ptrdiff_t i = 0; i < x.shape[1]; i += kBlock) round_block(x.row(t) + i, y.view().row(t) + i);
  return y;
}

}  // namespace nibble::reference
