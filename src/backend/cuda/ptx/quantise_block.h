// Quantises activations to the formats of block-scaled products (block_mma.cuh): 32 adjacent elements share
// the scale 2^(byte - 127). Rounds to nearest, ties to even. A block of zeros has scale byte 0 and codes 0. A
// block with an infinity or a NaN has scale byte 255 (NaN) and codes 0.
//
//  MXFP8       E4M3 with the smallest scale for which no value exceeds 448. The OCP specification's scale
//              clips in a tenth of the blocks, and its error is a tenth larger.
//  two terms   A sum of two MXFP8 blocks (MXFP8x2). The first term keeps 4 of bfloat16's 8 significant bits,
//              the second the other 4. The second scale is 2^-4 of the first: errors of the first term, up to
//              16 scales, are then up to 256 second scales, below E4M3's 448 (with 2^-5: 512). A bfloat16 of
//              2^-6 scales (2^-13.8 of the block's largest) or more is exact, others to within 2^-14 scales.
//  MXFP4       E2M1 with scale 2^(floor(log2 largest) - 2) or twice that: the smaller sum of squared errors.
//
// Functions take one lane's eight adjacent elements (block_codes.h). The four lanes of a block exchange only
// the block's largest magnitude and errors (quantise_block.cuh). The host runs the same formulas.
#pragma once

#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda {

inline constexpr uint32_t kInfinityBits{0x7F800000u};
inline constexpr uint8_t kNanScale{255};

__host__ __device__ inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
__host__ __device__ inline float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Bits of the largest magnitude. As integers, infinity exceeds all numbers, and NaN exceeds infinity.
__host__ __device__ inline uint32_t largest_magnitude(const float (&x)[8]) {
  uint32_t largest = 0;
  for (const float value : x) {
    const uint32_t magnitude = bits_of(value) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}
constexpr bool has_codes(uint32_t largest) { return largest > 0 && largest < kInfinityBits; }

// Biased exponent of the largest magnitude minus 8, plus one if its mantissa is above 1.75. E4M3 ends at 448,
// which is 1.75 * 2^8.
constexpr uint8_t mxfp8_scale(uint32_t largest) {
  if (largest >= kInfinityBits) return kNanScale;
  const uint32_t exponent = (largest + 0x1FFFFFu) >> 23;
  return static_cast<uint8_t>(exponent > 8 ? exponent - 8 : 0);
}
// Returns the scale of the second term: 2^-4 times that of the first term, or the smallest possible scale.
constexpr uint8_t rest_scale(uint8_t scale) {
  return scale == kNanScale ? kNanScale : static_cast<uint8_t>(scale > 4 ? scale - 4 : 0);
}
constexpr uint8_t mxfp4_scale(uint32_t largest) {  // 2^(floor(log2 largest) - 2)
  if (largest >= kInfinityBits) return kNanScale;
  const uint32_t exponent = largest >> 23;
  return static_cast<uint8_t>(exponent > 2 ? exponent - 2 : 0);
}

// Returns 2^(127 - scale). The scale must be below 254.
__host__ __device__ inline float per_scale(uint8_t scale) { return float_of_bits((254u - scale) << 23); }

struct EightE4m3 {  // B registers of kMxfp8
  uint32_t first, second;
};

// Rounds x * factor to E4M3, and leaves the remainder in x. The remainder is exact unless it underflows.
__host__ __device__ inline EightE4m3 take_e4m3(float (&x)[8], float factor) {
  constexpr int kNeighbour[]{0, 4, 1, 5, 2, 6, 3, 7};  // the column at each place (block_codes.h)
  uint32_t codes[2]{};
  for (int pair = 0; pair < 4; ++pair) {
    float &low = x[kNeighbour[2 * pair]], &high = x[kNeighbour[2 * pair + 1]];
    low *= factor;
    high *= factor;
    const __nv_fp8x2_storage_t two =
        __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
    const __half2_raw values = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
    low -= __half2float(__half(__half_raw{values.x}));
    high -= __half2float(__half(__half_raw{values.y}));
    codes[pair / 2] |= uint32_t{two} << 16 * (pair % 2);
  }
  return {codes[0], codes[1]};
}

// `largest` in these functions: the largest magnitude of the whole block.
__host__ __device__ inline EightE4m3 quantise_mxfp8(const float (&x)[8], uint32_t largest) {
  if (!has_codes(largest)) return {};
  float rest[8];
  memcpy(rest, x, sizeof rest);
  return take_e4m3(rest, per_scale(mxfp8_scale(largest)));
}

struct TwoTerms {
  EightE4m3 first, second;
};
__host__ __device__ inline TwoTerms quantise_two_terms(const float (&x)[8], uint32_t largest) {
  if (!has_codes(largest)) return {};
  const uint8_t scale = mxfp8_scale(largest);
  float rest[8];
  memcpy(rest, x, sizeof rest);
  TwoTerms terms{};
  terms.first = take_e4m3(rest, per_scale(scale));
  terms.second = take_e4m3(rest, static_cast<float>(1 << (scale - rest_scale(scale))));
  return terms;
}

// Rounds to E2M1, which has 8 magnitudes: multiples of 1/2 below 1, and one bit of mantissa from 1 on.
__host__ __device__ inline uint32_t e2m1_code(float x) {
  const uint32_t bits = bits_of(x), magnitude = bits & 0x7FFFFFFFu;
  const uint32_t below_1 =
      bits_of(float_of_bits(magnitude) + 0x1p22f) - bits_of(0x1p22f);  // rounds to halves
  const uint32_t above_1 = ((magnitude + 0x1FFFFFu + (magnitude >> 22 & 1u)) >> 22) - (126u << 1);
  const uint32_t code = magnitude < bits_of(1.0f) ? below_1 : magnitude >= bits_of(6.0f) ? 7u : above_1;
  return (bits >> 28 & 8u) | code;
}
__host__ __device__ inline float e2m1_magnitude(uint32_t code) {
  const uint32_t magnitude = code & 7;
  return magnitude < 2 ? 0.5f * static_cast<float>(magnitude)
                       : float_of_bits((magnitude << 22) + (126u << 23));
}

// Sums of squared errors of eight values with the smaller scale (of_scale) and with twice that scale, divided
// by the square of the smaller scale. Order and FMAs are fixed, so host and device choose the same scale.
struct Mxfp4Errors {
  float of_scale, of_twice;
};
__host__ __device__ inline Mxfp4Errors mxfp4_errors(const float (&x)[8], uint32_t largest) {
  Mxfp4Errors errors{0, 0};
  if (!has_codes(largest)) return errors;
  const float factor = per_scale(mxfp4_scale(largest));
  for (const float value : x) {
    const float magnitude = fabsf(value * factor);
    const float error = e2m1_magnitude(e2m1_code(magnitude)) - magnitude;
    const float error_of_twice = 2 * e2m1_magnitude(e2m1_code(0.5f * magnitude)) - magnitude;
    errors.of_scale = fmaf(error, error, errors.of_scale);
    errors.of_twice = fmaf(error_of_twice, error_of_twice, errors.of_twice);
  }
  return errors;
}
constexpr uint8_t better_mxfp4_scale(uint32_t largest, Mxfp4Errors errors) {  // errors of the whole block
  return static_cast<uint8_t>(mxfp4_scale(largest) + (errors.of_twice < errors.of_scale ? 1 : 0));
}
__host__ __device__ inline uint32_t quantise_mxfp4(const float (&x)[8], uint32_t largest, uint8_t scale) {
  if (!has_codes(largest)) return 0;
  const float factor = per_scale(scale);
  uint32_t codes = 0;
  for (int c = 0; c < 8; ++c) codes |= e2m1_code(x[c] * factor) << 4 * place_of(BlockForm::kMxfp4, c);
  return codes;
}

}  // namespace nibble::cuda
