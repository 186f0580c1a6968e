// AVX2 with AVX-VNNI: the products of AVX-512's VNNI in 256 bits, where there are no 512. Intel's client processors since Alder Lake,
// AMD since Zen 5.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_X86
#include <immintrin.h>

#include "backend/cpu/isa/avx2_strip.h"

namespace nibble::cpu {
namespace {

struct Mxfp4 : Avx2Strips {
  static Ints dot(const Weights& weights, const Q8Block& x) {
    __m256i sum = _mm256_set1_epi32(x.offset);
    for (int w = 0; w < 8; ++w) {
      int32_t word;
      __builtin_memcpy(&word, x.codes + 4 * w, sizeof word);
      sum = _mm256_dpbusd_avx_epi32(sum, weights.words[w], _mm256_set1_epi32(word));
    }
    return sum;
  }
};

}  // namespace

namespace avx_vnni {
void strip_mxfp4(const StripArgs& args) { strips<Mxfp4>(args); }
}  // namespace avx_vnni

}  // namespace nibble::cpu
#endif
