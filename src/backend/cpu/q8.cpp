#include "backend/cpu/q8.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "backend/cpu/floats.h"

namespace nibble::cpu {

Q8Block to_q8(const float* split) {
  // Magnitudes are compared as integers by their bits, which have the same order; a NaN is the largest.
  using Ints = int32_t __attribute__((vector_size(16)));
  Ints largest{};
  for (int i = 0; i < kBlock; i += 4) {
    const Ints magnitudes = reinterpret_cast<Ints>(load(split + i)) & INT32_MAX;
    largest = magnitudes > largest ? magnitudes : largest;
  }
  const int32_t bits = std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]));
  const float magnitude = std::bit_cast<float>(bits);
  const bool is_finite = magnitude <= std::numeric_limits<float>::max();
  const float inverse = is_finite && magnitude >= 0x1p-120f ? 127 / magnitude : 0;

  // kWhole's last bit has the value 1. So adding kWhole to a number rounds the number to an integer, which is
  // then in the low bits of the sum.
  constexpr float kWhole{0x1.8p23f};
  const auto whole = [&](const float* p) {
    return reinterpret_cast<Words>(load(p) * inverse + kWhole) - std::bit_cast<uint32_t>(kWhole);
  };
  using Pairs = uint16_t __attribute__((vector_size(8)));
  Q8Block block{};
  Words sums{};
  for (int i = 0; i < kBlock / 2; i += 4) {
    const Words even = whole(split + i), odd = whole(split + kBlock / 2 + i);
    sums += even + odd;
    const Pairs pairs = __builtin_convertvector((even & 0xFF) | (odd & 0xFF) << 8, Pairs);
    std::memcpy(block.codes + 2 * i, &pairs, sizeof pairs);
  }
  const int32_t sum = is_finite ? static_cast<int32_t>(sums[0] + sums[1] + sums[2] + sums[3]) : 0;
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
