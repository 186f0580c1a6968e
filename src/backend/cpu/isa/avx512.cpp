// AVX-512 (only the F subset), 16 floats per vector: Intel servers since Skylake-SP, AMD since Zen 4.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_X86
#include <immintrin.h>

#include "backend/cpu/isa/tile.h"

namespace nibble::cpu {
namespace {

struct Avx512 {
  using Vec = __m512;
  using Table = __m512;
  struct Pair {
    Vec even, odd;
  };
  static constexpr int kLanes{16};
  static constexpr int kTileTokens{4};  // 32 registers: 16 sums, 8 activations, 2 weights, the table

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
  static Vec broadcast(float x) { return _mm512_set1_ps(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  // Adds lanes that are 8 apart, then lanes that are 4, 2 and 1 apart.
  static float sum(Vec v) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v),
                                       _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Sums the lanes of four vectors, each in the order of sum(). One instruction adds lanes of two vectors, so
  // 13 instructions suffice instead of 28. That matters in attention, where a dot product has only 64
  // elements.
  static void sums_of_four(Vec a, Vec b, Vec c, Vec d, float* to) {
    const auto halves = [](Vec x, Vec y) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
    };
    const Vec ab = halves(a, b), cd = halves(c, d);  // 8 partial sums of each of a, b, c and d
    const Vec fours = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    const Vec twos = _mm512_add_ps(fours, _mm512_permute_ps(fours, 0x4E));
    const Vec ones = _mm512_add_ps(twos, _mm512_permute_ps(twos, 0xB1));  // the four sums, each in 4 lanes
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, ones)));
  }

  static Pair bf16(const uint16_t* p) {
    const __m512i words = _mm512_loadu_si512(p);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(words, upper))};
  }

  // Converts E4M3 codes to IEEE halves with 2^-8 times their value (avx2.cpp explains how).
  static constexpr float kE4m3Factor{256};
  static Pair e4m3(const uint8_t* p) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i fields = _mm256_set1_epi16(static_cast<short>(0xBF80));
    const __m256i nan = _mm256_cmpeq_epi8(_mm256_add_epi8(codes, codes), _mm256_set1_epi8(-2));
    const __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1), fields);
    const __m256i odd = _mm256_and_si256(_mm256_srai_epi16(codes, 1), fields);
    return {_mm512_cvtph_ps(_mm256_or_si256(even, _mm256_slli_epi16(nan, 8))),
            _mm512_cvtph_ps(_mm256_or_si256(odd, _mm256_srai_epi16(nan, 8)))};
  }

  // vpermps reads only the low 4 bits of a lane, so the low code needs no mask. Scaling by 2^n is exact.
  static Table table(float scale) {
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f,  //
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return _mm512_mul_ps(values, _mm512_set1_ps(scale));
  }
  static Pair mxfp4(const uint8_t* p, const Table& table) {
    const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_permutexvar_ps(codes, table), _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), table)};
  }
};

}  // namespace

namespace avx512 {
void dot_bf16(const DotArgs& args) { dot<Avx512, Bf16Row<Avx512>>(args); }
void dot_e4m3(const DotArgs& args) { dot<Avx512, E4m3Row<Avx512>>(args); }
void dot_mxfp4(const DotArgs& args) { dot<Avx512, Mxfp4Row<Avx512>>(args); }
void weigh_bf16(const WeighArgs& args) { weigh<Avx512, Bf16Row<Avx512>>(args); }
void weigh_e4m3(const WeighArgs& args) { weigh<Avx512, E4m3Row<Avx512>>(args); }
}  // namespace avx512

}  // namespace nibble::cpu
#endif
