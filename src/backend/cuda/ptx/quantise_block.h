// Quantises activations to the formats of the block-scaled mma (block_mma.cuh): 32 adjacent elements share
// the scale 2^(byte - 127). Rounds to nearest, ties to even. A block of zeros has scale byte 0 and codes 0. A
// block with an infinity or a NaN has scale byte 255 (NaN) and codes 0.
//
//  MXFP8       E4M3 with the smallest scale for which no value exceeds 448. The OCP specification's scale
//              would clip values in a tenth of the blocks, and give errors that are a tenth larger.
//  two terms   A value is the sum of two MXFP8 numbers (MXFP8x2). The first term keeps 4 of the 8 significant
//              bits of a bfloat16, the second the other 4. The second scale is 2^-4 of the first: the first
//              term's error, at most 16 times the first scale, is then at most 256 times the second, below
//              E4M3's 448 (with 2^-5: 512). A bfloat16 of at least 2^-6 times the first scale is exact; this
//              bound is at most 2^-13.8 times the block's largest magnitude. Smaller numbers have an error of
//              at most 2^-14 times the first scale.
//  MXFP4       E2M1 with scale 2^(floor(log2 largest) - 2) or twice that, whichever gives the smaller sum of
//              squared errors.
//
// Each function takes one lane's eight adjacent elements (block_codes.h). The four lanes of a block exchange
// only the block's largest magnitude and errors (quantise_block.cuh). The host runs the same code.
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

// Returns the bits of the largest magnitude of eight elements. As integers, the bits of infinity exceed the
// bits of all numbers, and the bits of NaN exceed those of infinity.
__host__ __device__ inline uint32_t largest_magnitude(const float (&x)[8]) {
  uint32_t largest = 0;
  for (const float value : x) {
    const uint32_t magnitude = bits_of(value) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}
// Returns whether a block's codes must be computed. If not, all of them are 0: the block has only zeros, or
// has an infinity or a NaN. `largest`: bits of the block's largest magnitude.
constexpr bool has_codes(uint32_t largest) { return largest > 0 && largest < kInfinityBits; }

// Returns the scale byte of MXFP8: the biased exponent of the largest magnitude minus 8, plus 1 if its
// mantissa is above 1.75, because E4M3 ends at 448 = 1.75 * 2^8.
constexpr uint8_t mxfp8_scale(uint32_t largest) {
  if (largest >= kInfinityBits) return kNanScale;
  const uint32_t exponent = (largest + 0x1FFFFFu) >> 23;
  return static_cast<uint8_t>(exponent > 8 ? exponent - 8 : 0);
}
// Returns the scale byte of MXFP8x2's second term: 2^-4 times the first term's scale, or the smallest
// possible scale.
constexpr uint8_t rest_scale(uint8_t scale) {
  return scale == kNanScale ? kNanScale : static_cast<uint8_t>(scale > 4 ? scale - 4 : 0);
}
constexpr uint8_t mxfp4_scale(uint32_t largest) {  // returns the byte of scale 2^(floor(log2 largest) - 2)
  if (largest >= kInfinityBits) return kNanScale;
  const uint32_t exponent = largest >> 23;
  return static_cast<uint8_t>(exponent > 2 ? exponent - 2 : 0);
}

// Returns 1 / scale = 2^(127 - scale byte). The byte must be below 254.
__host__ __device__ inline float per_scale(uint8_t scale) { return float_of_bits((254u - scale) << 23); }

struct EightE4m3 {  // a lane's eight codes, as B registers of BlockForm::kMxfp8
  uint32_t first, second;
};

// Rounds each element of `x` times `factor` to E4M3, and returns the codes. Leaves in `x` the remainders: the
// scaled element minus the code's value. Remainders are exact unless they underflow.
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

// `largest` in the functions below: bits of the largest magnitude of the whole block of 32 elements.
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

// Returns the E2M1 code nearest to x. The magnitudes of E2M1 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
__host__ __device__ inline uint32_t e2m1_code(float x) {
  const uint32_t bits = bits_of(x), magnitude = bits & 0x7FFFFFFFu;
  const uint32_t below_1 =
      // Adding 2^22 rounds to a multiple of 1/2.
      bits_of(float_of_bits(magnitude) + 0x1p22f) - bits_of(0x1p22f);
  const uint32_t above_1 = ((magnitude + 0x1FFFFFu + (magnitude >> 22 & 1u)) >> 22) - (126u << 1);
  const uint32_t code = magnitude < bits_of(1.0f) ? below_1 : magnitude >= bits_of(6.0f) ? 7u : above_1;
  return (bits >> 28 & 8u) | code;
}
__host__ __device__ inline float e2m1_magnitude(uint32_t code) {
  const uint32_t magnitude = code & 7;
  return magnitude < 2 ? 0.5f * static_cast<float>(magnitude)
                       : float_of_bits((magnitude << 22) + (126u << 23));
}

// Sums of the squared errors of eight values, with the smaller scale (of_scale) and with twice that scale
// (of_twice), both divided by the square of the smaller scale. The order of additions and the FMAs are
// fixed, so that host and device choose the same scale.
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
constexpr uint8_t better_mxfp4_scale(uint32_t largest, Mxfp4Errors errors) {  // `errors`: of the whole block
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
