// Roundings of other backends that the reference can imitate. It does not imitate the order of their float32
// sums, so a few values still round to a neighbouring code.
#pragma once

#include "core/tensors/view.h"
#include "model/weights.h"
#include "reference/array.h"

namespace nibble::reference {

struct Rounding {
  Format kv{Format::kF32};  // rounding of keys and values: kF32 (none), kBf16, or kE4m3 with scale 1
  // Whether inputs of products with MXFP4 or Q8_0 weights are rounded to int8, as on the CPU backend
  // (backend/cpu/q8.h).
  bool int8_activations{false};
};

float round_to(Format kv, float value);

// Whether products with this matrix round their input to int8.
bool takes_int8(const Rounding& rounding, const Matrix& weight);

// Rounds each block of 32 elements of a row to int8 with a float32 scale:
//   x~[c] = (a / 127) code[c]      code[c] = x[c] (127 / a), to nearest, ties to even      a = max |x[c]|
// A block whose maximum is below 2^-120 becomes zeros. Rows must be whole blocks.
Array<float, 2> rounded_to_int8(View<const float, 2> x);

}  // namespace nibble::reference
