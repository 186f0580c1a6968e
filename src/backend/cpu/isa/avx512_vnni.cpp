// AVX-512 VNNI and BW: one instruction makes 64 products of bytes. Intel's servers have them since Cascade
// Lake, AMD's processors since Zen 4.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_X86
#include <immintrin.h>

#include "backend/cpu/isa/strip.h"

namespace nibble::cpu {
namespace {

struct Avx512Vnni {
  using Floats = __m512;
  using Ints = __m512i;
  struct Weights {
    __m512i words[8];  // bytes are unsigned
  };
  static constexpr int kStripRows{16};
  static constexpr int kTileTokens{8};  // registers: 8 sums, 8 weights, the scale, temporaries

  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats broadcast(float x) { return _mm512_set1_ps(x); }
  static void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats to_float(Ints v) { return _mm512_cvtepi32_ps(v); }

  // Returns the block sum of each row. `offset`: initial sum, which compensates for the constant that is
  // added to the weights (Q8Block).
  static Ints dot(const Weights& weights, const int8_t* codes, int32_t offset) {
    __m512i sum = _mm512_set1_epi32(offset);
    for (int w = 0; w < 8; ++w) {
      int32_t word;
      __builtin_memcpy(&word, codes + 4 * w, sizeof word);
      sum = _mm512_dpbusd_epi32(sum, weights.words[w], _mm512_set1_epi32(word));
    }
    return sum;
  }
};

// Weights w are unpacked to 2 w + 12, which is 0 to 24, because vpdpbusd needs unsigned bytes.
struct Mxfp4 : Avx512Vnni {
  static constexpr int kCodeBytes{kStripRows * kBlock / 2}, kScaleBytes{kStripRows};

  static Weights unpack(const uint8_t* p) {
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i nibble = _mm512_set1_epi8(15);
    Weights weights;
    for (int v = 0; v < 4; ++v) {
      const __m512i codes = _mm512_loadu_si512(p + 64 * v);
      weights.words[2 * v] = _mm512_shuffle_epi8(table, _mm512_and_si512(codes, nibble));
      weights.words[2 * v + 1] =
          _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
    }
    return weights;
  }

  // Returns 2^(e - 127) for each row's E8M0 code e. Code 0 gives a subnormal, and code 255 gives NaN
  // (avx2_strip.h explains how).
  static Floats scale(const uint8_t* p) {
    const __m512i exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512 scale = _mm512_castsi512_ps(
        _mm512_max_epu32(_mm512_slli_epi32(exponents, 23), _mm512_set1_epi32(0x00400000)));
    return _mm512_fmadd_ps(scale, _mm512_setzero_ps(), scale);
  }

  static Ints dot(const Weights& weights, const Q8Block& x) {
    return Avx512Vnni::dot(weights, x.codes, x.offset);
  }
};

// Weights w are unpacked to w + 128, an unsigned byte, by flipping the sign bit.
struct Q8_0 : Avx512Vnni {
  static constexpr int kCodeBytes{kStripRows * kBlock}, kScaleBytes{2 * kStripRows};

  static Weights unpack(const uint8_t* p) {
    const __m512i sign = _mm512_set1_epi8(-128);
    Weights weights;
    for (int w = 0; w < 8; ++w) weights.words[w] = _mm512_xor_si512(_mm512_loadu_si512(p + 64 * w), sign);
    return weights;
  }
  static Floats scale(const uint8_t* p) {
    const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_add_ps(scale, scale);
  }
  static Ints dot(const Weights& weights, const Q8Block& x) {
    return Avx512Vnni::dot(weights, x.codes, x.q8_0_offset);
  }
};

}  // namespace

namespace avx512_vnni {
void strip_mxfp4(const StripArgs& args) { strips<Mxfp4>(args); }
void strip_q8_0(const StripArgs& args) { strips<Q8_0>(args); }
}  // namespace avx512_vnni

}  // namespace nibble::cpu
#endif
