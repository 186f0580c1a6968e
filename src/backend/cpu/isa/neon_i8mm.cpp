// NEON's int8 matrix extension: 32 products per instruction. Arm's cores have it since Neoverse V1 and N2,
// Apple's since M2.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_AARCH64
#include "backend/cpu/isa/neon_dotprod.h"

namespace nibble::cpu {
namespace {

// smmla multiplies 8 columns of 2 rows by the same columns of 2 tokens, as shown below. A single token would
// leave half of the sums unused: sdot multiplies it instead.
//                       columns 8 v ... 8 v + 7
//   weights   [ row r     . . . . . . . . ]        sums   [ token t,     row r     token t,     row r + 1 ]
//             [ row r + 1 . . . . . . . . ]               [ token t + 1, row r     token t + 1, row r + 1 ]
template <class Format>
struct I8mm : Format {
  using OfOneToken = Dotprod<Format>;
  struct Weights {
    int8x16_t rows_0_1[4], rows_2_3[4];
  };
  struct Pair {
    int32x4_t first, second;
  };

  static Weights unpack(const uint8_t* p) {
    const NeonStrips::Weights by_words = Format::unpack(p);
    Weights weights;
    for (int v = 0; v < 4; ++v) {
      const int32x4_t low = vreinterpretq_s32_s8(by_words.words[2 * v]),
                      high = vreinterpretq_s32_s8(by_words.words[2 * v + 1]);
      weights.rows_0_1[v] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
      weights.rows_2_3[v] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
    }
    return weights;
  }

  static Pair dot_pair(const Weights& weights, const Q8Block& x, const Q8Block& y) {
    int32x4_t rows_0_1 = vdupq_n_s32(0), rows_2_3 = vdupq_n_s32(0);
    for (int v = 0; v < 4; ++v) {
      const int8x16_t codes = vcombine_s8(vld1_s8(x.codes + 8 * v), vld1_s8(y.codes + 8 * v));
      rows_0_1 = vmmlaq_s32(rows_0_1, codes, weights.rows_0_1[v]);
      rows_2_3 = vmmlaq_s32(rows_2_3, codes, weights.rows_2_3[v]);
    }
    return {vcombine_s32(vget_low_s32(rows_0_1), vget_low_s32(rows_2_3)),
            vcombine_s32(vget_high_s32(rows_0_1), vget_high_s32(rows_2_3))};
  }
};

}  // namespace

namespace neon_i8mm {
void strip_mxfp4(const StripArgs& args) { strips<I8mm<NeonMxfp4>>(args); }
void strip_q8_0(const StripArgs& args) { strips<I8mm<NeonQ8_0>>(args); }
}  // namespace neon_i8mm

}  // namespace nibble::cpu
#endif
