// Extents of a stored tensor, outermost first. Rank 0 is a scalar, one element.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace nibble {

using Shape = std::vector<uint64_t>;  // printed as [2880, 4096]

// Returns nullopt if the product overflows 64 bits: extents come from files and may be anything.
inline std::optional<uint64_t> num_elements(const Shape& shape) {
  uint64_t product = 1;
  bool overflowed = false;
  for (const uint64_t extent : shape) {
    if (extent == 0) return 0;
    overflowed |= __builtin_mul_overflow(product, extent, &product);
  }
  if (overflowed) return std::nullopt;
  return product;
}

}  // namespace nibble
