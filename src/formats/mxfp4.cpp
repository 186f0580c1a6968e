#include "formats/mxfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/errors/check.h"
#include "core/numbers/e2m1.h"

namespace nibble {
namespace {

// `largest`: the block's largest magnitude, finite. With kOcp and kLlamaCpp it is 4 to 8 times the scale, so
// that E2M1 rounds it to 4 or 6.
E8m0 choose_scale(float largest, Mxfp4Rule rule) {
  if (rule == Mxfp4Rule::kCeil) return to_e8m0_up(largest / 6);
  constexpr int kTopExponent{2};  // E2M1's largest power of two is 2^2
  return E8m0{static_cast<uint8_t>(std::max(to_e8m0_down(largest).bits - kTopExponent, 0))};
}

// Returns the nearest code. Ties go to the smaller magnitude, and -0 is never chosen.
E2m1 nearest_first_code(float x) {
  uint8_t nearest = 0;
  for (uint8_t code = 1; code < kE2m1Values.size(); ++code)
    if (std::abs(kE2m1Values[code] - x) < std::abs(kE2m1Values[nearest] - x)) nearest = code;
  return E2m1{nearest};
}

void check_sizes(size_t num_values, size_t num_codes, size_t num_scales) {
  NIBBLE_CHECK(num_values % kMxfp4BlockSize == 0 && num_codes == num_values / 2 &&
                   num_scales == num_values / kMxfp4BlockSize,
               "{} values, {} bytes of codes, {} scales", num_values, num_codes, num_scales);
}

}  // namespace

std::array<float, kMxfp4BlockSize> decode(const Mxfp4Block& block) {
  std::array<float, kMxfp4BlockSize> values{};
  const float scale = to_float(block.scale);
  for (size_t b = 0; b < kMxfp4CodeBytes; ++b) {
    values[2 * b] = kE2m1Values[block.codes[b] & 15] * scale;
    values[2 * b + 1] = kE2m1Values[block.codes[b] >> 4] * scale;
  }
  return values;
}

Mxfp4Block encode(std::span<const float, kMxfp4BlockSize> values, Mxfp4Rule rule) {
  float largest = 0;
  for (const float x : values) {
    if (!std::isfinite(x)) return {.codes = {}, .scale = kE8m0Nan};
    largest = std::max(largest, std::abs(x));
  }
  Mxfp4Block block{.codes = {}, .scale = choose_scale(largest, rule)};
  // 1 / scale is a power of two, so the products are exact, or underflow far below the smallest E2M1 value.
  const float per_scale = to_float(E8m0{static_cast<uint8_t>(254 - block.scale.bits)});
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = values[i] * per_scale;
    const E2m1 code = rule == Mxfp4Rule::kLlamaCpp ? nearest_first_code(x) : to_e2m1(x);
    block.codes[i / 2] |= static_cast<uint8_t>(code.bits << (i % 2 * 4));
  }
  return block;
}

// kOcp's scale is 2^(exponent of the largest value - 2). E2M1 has these multiples of the scale: 4 and 6 with
// the largest exponent; 2 and 3, 1 and 1.5, then only 0.5 with lower exponents; and 0.
bool is_exact(std::span<const float, kMxfp4BlockSize> values) {
  constexpr uint32_t kLowBits{0x3FFFFF}, kTopBit{0x400000}, kNotFinite{255}, kLeast{3};
  uint32_t low_bits = 0, top = 0;
  for (const float x : values) {
    const auto bits = std::bit_cast<uint32_t>(x);
    low_bits |= bits & kLowBits;
    top = std::max(top, bits >> 23 & 255);
  }
  if (low_bits != 0 || top == kNotFinite) return false;
  bool is_each_exact = true, is_all_zero = true;
  for (const float x : values) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const uint32_t below = top - (bits >> 23 & 255);
    const bool is_zero = x == 0;
    is_each_exact &= is_zero || below <= 2 || (below == 3 && (bits & kTopBit) == 0);
    is_all_zero &= is_zero;
  }
  return is_all_zero || (is_each_exact && top >= kLeast);
}

void decode_mxfp4(std::span<const uint8_t> codes, std::span<const uint8_t> scales, std::span<float> values) {
  check_sizes(values.size(), codes.size(), scales.size());
  Mxfp4Block block;
  for (size_t i = 0; i < scales.size(); ++i) {
    std::ranges::copy(codes.subspan(i * kMxfp4CodeBytes, kMxfp4CodeBytes), block.codes.begin());
    block.scale = E8m0{scales[i]};
    std::ranges::copy(decode(block), values.subspan(i * kMxfp4BlockSize).begin());
  }
}

void encode_mxfp4(std::span<const float> values, std::span<uint8_t> codes, std::span<uint8_t> scales,
                  Mxfp4Rule rule) {
  check_sizes(values.size(), codes.size(), scales.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    const Mxfp4Block block = encode(values.subspan(i * kMxfp4BlockSize).first<kMxfp4BlockSize>(), rule);
    std::ranges::copy(block.codes, codes.subspan(i * kMxfp4CodeBytes).begin());
    scales[i] = block.scale.bits;
  }
}

}  // namespace nibble
