// Split order of activations: in each block of 32, the even elements, then the odd ones (isa/kernels.h).
#pragma once

#include <cstddef>

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {

constexpr ptrdiff_t split_index(ptrdiff_t i) {
  return i / kBlock * kBlock + i % 2 * (kBlock / 2) + i % kBlock / 2;
}
static_assert(split_index(0) == 0 && split_index(1) == 16 && split_index(31) == 31 && split_index(34) == 33);

constexpr ptrdiff_t padded(ptrdiff_t num_elements) { return (num_elements + kBlock - 1) / kBlock * kBlock; }

}  // namespace nibble::cpu
