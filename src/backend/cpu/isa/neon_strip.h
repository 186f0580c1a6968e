// Strips for NEON: vectors of 4 rows. The files that include this header define the block sum (isa/strip.h).
#pragma once

#include <arm_neon.h>

#include "backend/cpu/isa/strip.h"

namespace nibble::cpu {
namespace {

struct NeonStrips {
  using Floats = float32x4_t;
  using Ints = int32x4_t;
  struct Weights {
    int8x16_t words[8];  // each: 4 columns of 4 rows
  };
  static constexpr int kStripRows{4};
  static constexpr int kTileTokens{8};  // 19 registers: 8 sums, 8 weights, a scale, 2 activations

  static Floats zero() { return vdupq_n_f32(0); }
  static Floats broadcast(float x) { return vdupq_n_f32(x); }
  static void store(float* p, Floats v) { vst1q_f32(p, v); }
  static Floats mul(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats fma(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  static Floats to_float(Ints v) { return vcvtq_f32_s32(v); }
};

// NEON multiplies signed bytes, so weights need no offset (see Q8Block).
struct NeonMxfp4 : NeonStrips {
  static constexpr int kCodeBytes{kStripRows * kBlock / 2}, kScaleBytes{kStripRows};

  static Weights unpack(const uint8_t* p) {
    constexpr int8_t kDoubled[16]{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t table = vld1q_s8(kDoubled);
    Weights weights;
    for (int v = 0; v < 4; ++v) {
      const uint8x16_t codes = vld1q_u8(p + 16 * v);
      weights.words[2 * v] = vqtbl1q_s8(table, vandq_u8(codes, vdupq_n_u8(15)));
      weights.words[2 * v + 1] = vqtbl1q_s8(table, vshrq_n_u8(codes, 4));
    }
    return weights;
  }

  // Returns 2^(e - 127) for each row's E8M0 code e. Code 0 gives a subnormal, and code 255 gives NaN
  // (avx2_strip.h explains how).
  static Floats scale(const uint8_t* p) {
    uint32_t bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    const uint32x4_t exponents = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    const float32x4_t scale =
        vreinterpretq_f32_u32(vmaxq_u32(vshlq_n_u32(exponents, 23), vdupq_n_u32(0x00400000)));
    return vfmaq_f32(scale, scale, vdupq_n_f32(0));
  }
};

struct NeonQ8_0 : NeonStrips {
  static constexpr int kCodeBytes{kStripRows * kBlock}, kScaleBytes{2 * kStripRows};

  static Weights unpack(const uint8_t* p) {
    Weights weights;
    for (int w = 0; w < 8; ++w) weights.words[w] = vreinterpretq_s8_u8(vld1q_u8(p + 16 * w));
    return weights;
  }
  static Floats scale(const uint8_t* p) {
    const float32x4_t scale = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
    return vaddq_f32(scale, scale);
  }
};

}  // namespace
}  // namespace nibble::cpu
