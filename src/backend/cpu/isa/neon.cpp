// NEON of every AArch64 processor, 4 floats per vector, with a fused multiply-add.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_AARCH64
#include <arm_neon.h>

#include "backend/cpu/isa/neon_strip.h"
#include "backend/cpu/isa/tile.h"

namespace nibble::cpu {
namespace {

struct Neon {
  using Vec = float32x4_t;
  using Table = float32x4_t;  // the scale, which multiplies looked-up values
  struct Pair {
    Vec even, odd;
  };
  static constexpr int kLanes{4};
  static constexpr int kTileTokens{4};  // 16 sums, 4 activations, 2 weights, and constants of the decoder

  static Vec zero() { return vdupq_n_f32(0); }
  static Vec load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, Vec v) { vst1q_f32(p, v); }
  static Vec broadcast(float x) { return vdupq_n_f32(x); }
  static Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
  static float sum(Vec v) { return vaddvq_f32(v); }

  static Pair bf16(const uint16_t* p) {
    const uint32x4_t words = vreinterpretq_u32_u16(vld1q_u16(p));
    return {vreinterpretq_f32_u32(vshlq_n_u32(words, 16)),
            vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xFFFF0000u)))};
  }

  // Converts E4M3 codes to IEEE halves with 2^-8 times their value (avx2.cpp explains how).
  static constexpr float kE4m3Factor{256};
  static Pair e4m3(const uint8_t* p) {
    const uint8x8_t codes = vld1_u8(p);
    const int16x4_t words = vreinterpret_s16_u8(codes), fields = vdup_n_s16(static_cast<int16_t>(0xBF80));
    const int16x4_t nan = vreinterpret_s16_u8(vceq_u8(vadd_u8(codes, codes), vdup_n_u8(0xFE)));
    const int16x4_t even = vand_s16(vshr_n_s16(vshl_n_s16(words, 8), 1), fields);
    const int16x4_t odd = vand_s16(vshr_n_s16(words, 1), fields);
    return {vcvt_f32_f16(vreinterpret_f16_s16(vorr_s16(even, vshl_n_s16(nan, 8)))),
            vcvt_f32_f16(vreinterpret_f16_s16(vorr_s16(odd, vshr_n_s16(nan, 8))))};
  }

  // A float32 of an E2M1 value is nonzero only in its upper two bytes. Each of these bytes is looked up by
  // the code in a 16-entry table. The lower two bytes get an index out of range, which gives zero.
  static Table table(float scale) { return vdupq_n_f32(scale); }
  static Pair mxfp4(const uint8_t* p, Table scale) {
    constexpr uint8_t kUpperTwo[32]{0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0,  // table of bits 16 to 23
                                    0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0,  //
                                    0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40,  // table of bits 24 to 31
                                    0x80, 0xBF, 0xBF, 0xBF, 0xC0, 0xC0, 0xC0, 0xC0};  //
    constexpr uint8_t kSpread[16]{255, 255, 0, 0, 255, 255, 1, 1, 255, 255, 2, 2, 255, 255, 3, 3};
    constexpr uint8_t kWhichTable[16]{255, 255, 0, 16, 255, 255, 0, 16, 255, 255, 0, 16, 255, 255, 0, 16};
    const uint8x16x2_t bytes{vld1q_u8(kUpperTwo), vld1q_u8(kUpperTwo + 16)};
    const uint8x16_t which = vld1q_u8(kWhichTable);
    uint32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    const uint8x16_t codes = vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(word)), vld1q_u8(kSpread));
    const auto look_up = [&](uint8x16_t index) {
      return vmulq_f32(vreinterpretq_f32_u8(vqtbl2q_u8(bytes, vorrq_u8(index, which))), scale);
    };
    return {look_up(vandq_u8(codes, vdupq_n_u8(15))), look_up(vshrq_n_u8(codes, 4))};
  }
};

// A 16-bit sum of two products is at most 2 * 128 * 127 = 32,512; a sum of three would not fit.
template <class Format>
struct Strip : Format {
  static int32x4_t dot(const NeonStrips::Weights& weights, const Q8Block& x) {
    int32x4_t rows_0_1 = vdupq_n_s32(0), rows_2_3 = vdupq_n_s32(0);
    for (int w = 0; w < 8; w += 2) {
      const int32x2_t words = vreinterpret_s32_s8(vld1_s8(x.codes + 4 * w));
      const int8x16_t first = vreinterpretq_s8_s32(vdupq_lane_s32(words, 0)),
                      second = vreinterpretq_s8_s32(vdupq_lane_s32(words, 1));
      const int8x16_t even = weights.words[w], odd = weights.words[w + 1];
      rows_0_1 = vpadalq_s16(rows_0_1, vmlal_s8(vmull_s8(vget_low_s8(even), vget_low_s8(first)),
                                                vget_low_s8(odd), vget_low_s8(second)));
      rows_2_3 = vpadalq_s16(rows_2_3, vmlal_high_s8(vmull_high_s8(even, first), odd, second));
    }
    return vpaddq_s32(rows_0_1, rows_2_3);
  }
};

}  // namespace

namespace neon {
void strip_mxfp4(const StripArgs& args) { strips<Strip<NeonMxfp4>>(args); }
void strip_q8_0(const StripArgs& args) { strips<Strip<NeonQ8_0>>(args); }
void dot_bf16(const DotArgs& args) { dot<Neon, Bf16Row<Neon>>(args); }
void dot_e4m3(const DotArgs& args) { dot<Neon, E4m3Row<Neon>>(args); }
void dot_mxfp4(const DotArgs& args) { dot<Neon, Mxfp4Row<Neon>>(args); }
void weigh_bf16(const WeighArgs& args) { weigh<Neon, Bf16Row<Neon>>(args); }
void weigh_e4m3(const WeighArgs& args) { weigh<Neon, E4m3Row<Neon>>(args); }
}  // namespace neon

}  // namespace nibble::cpu
#endif
