// AVX2 with FMA and F16C, 8 floats per vector: x86-64 since Haswell and Zen.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_X86
#include <immintrin.h>

#include "backend/cpu/isa/avx2_strip.h"
#include "backend/cpu/isa/tile.h"

namespace nibble::cpu {
namespace {

struct Avx2 {
  using Vec = __m256;
  using Table = __m256;
  struct Pair {
    Vec even, odd;
  };
  static constexpr int kLanes{8};
  // A tile of 2 tokens uses all 16 registers: 8 sums, 2 weights, the table and masks. Activations are read
  // from memory.
  static constexpr int kTileTokens{2};

  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
  static Vec broadcast(float x) { return _mm256_set1_ps(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static float sum(Vec v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

  static Pair bf16(const uint16_t* p) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(words, upper))};
  }

  // Converts the two E4M3 codes of a 16-bit word to IEEE halves. The exponent goes to the lower four of the
  // half's five exponent bits, the mantissa to the upper three of its ten mantissa bits. Each half is 2^-8
  // times the value (even for subnormals) and becomes a float32 exactly. NaN's code (all bits but the sign)
  // would become finite, so its half gets all bits set.
  static constexpr float kE4m3Factor{256};
  static Pair e4m3(const uint8_t* p) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i fields = _mm_set1_epi16(static_cast<short>(0xBF80));
    const __m128i nan = _mm_cmpeq_epi8(_mm_add_epi8(codes, codes), _mm_set1_epi8(-2));
    const __m128i even = _mm_and_si128(_mm_srai_epi16(_mm_slli_epi16(codes, 8), 1), fields);
    const __m128i odd = _mm_and_si128(_mm_srai_epi16(codes, 1), fields);
    return {_mm256_cvtph_ps(_mm_or_si128(even, _mm_slli_epi16(nan, 8))),
            _mm256_cvtph_ps(_mm_or_si128(odd, _mm_srai_epi16(nan, 8)))};
  }

  // vpermps looks up the magnitude by the low 3 bits of each lane; bit 3 is the sign. The scale is a power of
  // two, so multiplying the table by it is exact.
  static Table table(float scale) {
    return _mm256_mul_ps(_mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f),
                         _mm256_set1_ps(scale));
  }
  static Vec look_up(__m256i codes, const Table& table) {
    const __m256i sign = _mm256_and_si256(_mm256_slli_epi32(codes, 28), _mm256_set1_epi32(INT32_MIN));
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, codes), _mm256_castsi256_ps(sign));
  }
  static Pair mxfp4(const uint8_t* p, const Table& table) {
    const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return {look_up(codes, table), look_up(_mm256_srli_epi32(codes, 4), table)};
  }
};

struct Mxfp4 : Avx2Mxfp4 {
  // Unpacked weights are 0 to 24, so a sum of two products is at most 2 * 24 * 127 = 6,096, and four such
  // sums fit into 16 bits.
  static __m256i four_words(const __m256i* weights, const int8_t* codes) {
    __m256i sum = _mm256_setzero_si256();
    for (int w = 0; w < 4; ++w) {
      int32_t word;
      __builtin_memcpy(&word, codes + 4 * w, sizeof word);
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights[w], _mm256_set1_epi32(word)));
    }
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
  }
  static Ints dot(const Weights& weights, const Q8Block& x) {
    const __m256i products =
        _mm256_add_epi32(four_words(weights.words, x.codes), four_words(weights.words + 4, x.codes + 16));
    return _mm256_add_epi32(products, _mm256_set1_epi32(x.offset));
  }
};

// vpmaddubsw takes unsigned weights, so the weights' signs are applied to the activations. A sum of two
// products is at most 2 * 128 * 127 = 32,512 and fits into 16 bits; a sum of three products would not.
struct Q8_0 : Avx2Q8_0 {
  static Weights unpack(const uint8_t* p) {
    Weights weights;
    for (int w = 0; w < 8; ++w)
      weights.words[w] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * w));
    return weights;
  }
  static Ints dot(const Weights& weights, const Q8Block& x) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    for (int w = 0; w < 8; ++w) {
      int32_t word;
      __builtin_memcpy(&word, x.codes + 4 * w, sizeof word);
      const __m256i weight = weights.words[w], code = _mm256_sign_epi8(_mm256_set1_epi32(word), weight);
      sum =
          _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(weight), code), ones));
    }
    return sum;
  }
};

}  // namespace

namespace avx2 {
void strip_mxfp4(const StripArgs& args) { strips<Mxfp4>(args); }
void strip_q8_0(const StripArgs& args) { strips<Q8_0>(args); }
void dot_bf16(const DotArgs& args) { dot<Avx2, Bf16Row<Avx2>>(args); }
void dot_e4m3(const DotArgs& args) { dot<Avx2, E4m3Row<Avx2>>(args); }
void dot_mxfp4(const DotArgs& args) { dot<Avx2, Mxfp4Row<Avx2>>(args); }
void weigh_bf16(const WeighArgs& args) { weigh<Avx2, Bf16Row<Avx2>>(args); }
void weigh_e4m3(const WeighArgs& args) { weigh<Avx2, E4m3Row<Avx2>>(args); }
}  // namespace avx2

}  // namespace nibble::cpu
#endif
