#include "backend/cpu/q8.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace nibble::cpu {

Q8Block to_q8(const float* split) {
  // Magnitudes are compared by their bits: the compiler may do that in any order, and a NaN is larger than all numbers.
  int32_t largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::bit_cast<int32_t>(split[i]) & INT32_MAX);
  const float magnitude = std::bit_cast<float>(largest);
  const bool is_finite = magnitude <= std::numeric_limits<float>::max();
  const float inverse = is_finite && magnitude >= 0x1p-120f ? 127 / magnitude : 0;

  // What is added has its last bit at 1: the sum is rounded to a whole number, which is then in the low bits.
  constexpr float kWhole{0x1.8p23f};
  Q8Block block{};
  int32_t sum = 0;
  for (int i = 0; i < kBlock; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(split[i] * inverse + kWhole);
    const auto code = static_cast<int8_t>(bits - std::bit_cast<uint32_t>(kWhole));
    block.codes[i < kBlock / 2 ? 2 * i : 2 * i - kBlock + 1] = code;
    sum += code;
  }
  block.half_scale = is_finite ? magnitude / 254 : std::numeric_limits<float>::quiet_NaN();
  block.offset = -12 * sum;
  block.q8_0_offset = -128 * sum;
  return block;
}

void to_q8(const float* split, ptrdiff_t num_elements, Q8Block* blocks) {
  for (ptrdiff_t block = 0; block < num_elements / kBlock; ++block)
    blocks[block] = to_q8(split + block * kBlock);
}

}  // namespace nibble::cpu
