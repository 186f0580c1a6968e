// Strips for AVX2: vectors of 8 rows. The files that include this header define the block sum (isa/strip.h).
#pragma once

#include <immintrin.h>

#include "backend/cpu/isa/strip.h"

namespace nibble::cpu {
namespace {

struct Avx2Strips {
  using Floats = __m256;
  using Ints = __m256i;
  struct Weights {
    __m256i words[8];
  };
  static constexpr int kStripRows{8};
  static constexpr int kTileTokens{4};  // registers: 8 for weights, 4 for sums, the scale, temporaries

  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats broadcast(float x) { return _mm256_set1_ps(x); }
  static void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats to_float(Ints v) { return _mm256_cvtepi32_ps(v); }
};

struct Avx2Mxfp4 : Avx2Strips {
  static constexpr int kCodeBytes{kStripRows * kBlock / 2}, kScaleBytes{kStripRows};

  // Unpacks each weight w to 2 w + 12 (0 to 24), because vpmaddubsw and vpdpbusd take unsigned bytes.
  static Weights unpack(const uint8_t* p) {
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    Weights weights;
    for (int v = 0; v < 4; ++v) {
      const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * v));
      weights.words[2 * v] = _mm256_shuffle_epi8(table, _mm256_and_si256(codes, nibble));
      weights.words[2 * v + 1] =
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble));
    }
    return weights;
  }

  // Returns 2^(e - 127): the byte becomes the exponent of the float. Two codes need more: 0 becomes the
  // subnormal 2^-127 (by the maximum), and 255 becomes infinity, which fma(scale, 0, scale) turns into NaN.
  static Floats scale(const uint8_t* p) {
    const __m256i exponents = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m256 scale = _mm256_castsi256_ps(
        _mm256_max_epu32(_mm256_slli_epi32(exponents, 23), _mm256_set1_epi32(0x00400000)));
    return _mm256_fmadd_ps(scale, _mm256_setzero_ps(), scale);
  }
};

struct Avx2Q8_0 : Avx2Strips {
  static constexpr int kCodeBytes{kStripRows * kBlock}, kScaleBytes{2 * kStripRows};

  static Floats scale(const uint8_t* p) {
    const __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_add_ps(scale, scale);
  }
};

}  // namespace
}  // namespace nibble::cpu
