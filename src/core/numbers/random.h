// Counter-based random numbers: number n of a stream depends only on (seed, n). The mixing function is
// SplitMix64's finaliser (Steele, Lea, Flood: Fast splittable pseudorandom generators, 2014).
#pragma once

#include <cstdint>

namespace nibble {

constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr uint64_t random_bits(uint64_t seed, uint64_t counter) { return mix64(mix64(seed) ^ counter); }

constexpr double random_unit(uint64_t seed, uint64_t counter) {  // uniform in [0, 1), 53 bits
  return static_cast<double>(random_bits(seed, counter) >> 11) * 0x1p-53;
}

}  // namespace nibble
