// AVX-VNNI: AVX-512's VNNI instructions for vectors of 256 bits. Intel's client processors have them since
// Alder Lake, AMD's processors since Zen 5.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_X86
#include <immintrin.h>

#include "backend/cpu/isa/avx2_strip.h"

namespace nibble::cpu {
namespace {

// Returns the block sum of each row. `offset`: initial sum, which compensates for the constant that is added
// to the weights (Q8Block).
__m256i block_sum(const Avx2Strips::Weights& weights, const int8_t* codes, int32_t offset) {
  __m256i sum = _mm256_set1_epi32(offset);
  for (int w = 0; w < 8; ++w) {
    int32_t word;
    __builtin_memcpy(&word, codes + 4 * w, sizeof word);
    sum = _mm256_dpbusd_avx_epi32(sum, weights.words[w], _mm256_set1_epi32(word));
  }
  return sum;
}

struct Mxfp4 : Avx2Mxfp4 {
  static Ints dot(const Weights& weights, const Q8Block& x) { return block_sum(weights, x.codes, x.offset); }
};

// Weights w are unpacked to w + 128, an unsigned byte, by flipping the sign bit.
struct Q8_0 : Avx2Q8_0 {
  static Weights unpack(const uint8_t* p) {
    const __m256i sign = _mm256_set1_epi8(-128);
    Weights weights;
    for (int w = 0; w < 8; ++w)
      weights.words[w] =
          _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * w)), sign);
    return weights;
  }
  static Ints dot(const Weights& weights, const Q8Block& x) {
    return block_sum(weights, x.codes, x.q8_0_offset);
  }
};

}  // namespace

namespace avx_vnni {
void strip_mxfp4(const StripArgs& args) { strips<Mxfp4>(args); }
void strip_q8_0(const StripArgs& args) { strips<Q8_0>(args); }
}  // namespace avx_vnni

}  // namespace nibble::cpu
#endif
