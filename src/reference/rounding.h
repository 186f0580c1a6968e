// Roundings of other backends that the reference can repeat. Compared with it, such a backend differs by the order of its float32
// sums alone, and by those values that lie so near the middle between two codes that this order decides which one they get.
#pragma once

#include "core/view.h"
#include "model/weights.h"
#include "reference/array.h"

namespace nibble::reference {

struct Rounding {
  Format kv{Format::kF32};  // keys and values: kF32 as they are, kBf16, or kE4m3 with the scale 1
  // The inputs of products with weights that are stored in MXFP4 or Q8_0, as the CPU backend rounds them (backend/cpu/q8.h).
  bool int8_activations{false};
};

float round_to(Format kv, float value);

// True if a product with this matrix takes its input in int8.
bool takes_int8(const Rounding& rounding, const Matrix& weight);

// Each block of 32 elements of a row in int8, with a float32 scale:
//
//   x~[c] = (a / 127) code[c]      code[c] = x[c] (127 / a), to nearest, ties to even      a = max |x[c]|
//
// A block below 2^-120 counts as zeros. Rows are whole blocks.
Array<float, 2> rounded_to_int8(View<const float, 2> x);

}  // namespace nibble::reference
