// Quantises activations to int8 with one float32 scale per 32 elements (Q8Block in isa/kernels.h):
//   codes[c] = x[c] * (127 / a), to nearest, ties to even        half_scale = a / 254        a = max |x[c]|
// The error of an element is at most a / 254 plus the rounding of that division. A block of elements below
// 2^-120 becomes zeros; a block with an infinity or a NaN gets a NaN scale, so that every product shows it.
#pragma once

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {

Q8Block to_q8(const float* split);                                        // 32 elements in split order
void to_q8(const float* split, ptrdiff_t num_elements, Q8Block* blocks);  // whole blocks

}  // namespace nibble::cpu
