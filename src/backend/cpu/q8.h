// Activations to int8, a float32 scale for each 32 (isa/kernels.h: Q8Block):
//
//   codes[c] = x[c] * (127 / a), to nearest, ties to even        half_scale = a / 254        a = max |x[c]|
//
// So an element is off by a / 254 at most, and by the rounding of that division. A block below 2^-120 counts as zeros; one that
// holds an infinity or a NaN has NaN as its scale: it shows in every product.
#pragma once

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {

Q8Block to_q8(const float* split);                                        // 32 elements in split order
void to_q8(const float* split, ptrdiff_t num_elements, Q8Block* blocks);  // whole blocks

}  // namespace nibble::cpu
