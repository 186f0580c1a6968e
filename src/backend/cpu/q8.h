// Quantises activations to int8 with one float32 scale per 32 elements (Q8Block in isa/kernels.h):
//   codes[c] = x[c] * (127 / a), to nearest, ties to even        half_scale = a / 254        a = max |x[c]|
// The error of an element is at most a / 254, plus rounding errors of the computation. If a < 2^-120, all
// codes are zero. If an element is infinite or NaN, the scale is NaN, and so is every product.
#pragma once

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {

Q8Block to_q8(const float* split);  // `split`: 32 elements in split order
void to_q8(const float* split, ptrdiff_t num_elements, Q8Block* blocks);  // num_elements: a multiple of 32

}  // namespace nibble::cpu
