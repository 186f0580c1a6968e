// Code for any machine, with the compiler's vectors of 4 floats (SSE2, NEON, or plain code). A product is
// rounded before it is added, because some machines have no fused multiply-add.
#include "backend/cpu/isa/strip.h"
#include "backend/cpu/isa/tile.h"

namespace nibble::cpu {
namespace {

struct E4m3Floats {
  float of[256];
};
constexpr E4m3Floats kE4m3 = [] {
  E4m3Floats floats{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t magnitude = code & 0x7F;
    const float value = magnitude == 0x7F ? __builtin_nanf("")
                        : magnitude < 8   ? static_cast<float>(magnitude) * 0x1p-9f
                                          : __builtin_bit_cast(float, (magnitude << 20) + (120u << 23));
    floats.of[code] = code < 128 ? value : -value;
  }
  return floats;
}();

struct Portable {
  using Vec = float __attribute__((vector_size(16)));
  using Words = uint32_t __attribute__((vector_size(16)));
  using Table = float;  // only the scale: magnitudes are looked up in memory, not in a vector register
  struct Pair {
    Vec even, odd;
  };
  static constexpr int kLanes{4};
  static constexpr int kTileTokens{2};

  static Vec zero() { return Vec{}; }
  static Vec load(const float* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
  static Vec broadcast(float x) { return Vec{x, x, x, x}; }
  static Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
  static float sum(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }

  static Pair bf16(const uint16_t* p) {
    Words words;
    __builtin_memcpy(&words, p, sizeof words);
    return {reinterpret_cast<Vec>(words << 16), reinterpret_cast<Vec>(words & 0xFFFF0000u)};
  }

  static constexpr float kE4m3Factor{1};
  static Pair e4m3(const uint8_t* p) {
    const float* of = kE4m3.of;
    return {Vec{of[p[0]], of[p[2]], of[p[4]], of[p[6]]}, Vec{of[p[1]], of[p[3]], of[p[5]], of[p[7]]}};
  }

  static Table table(float scale) { return scale; }
  static Pair mxfp4(const uint8_t* p, Table scale) {
    constexpr float kValues[16]{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    const Vec even{kValues[p[0] & 15], kValues[p[1] & 15], kValues[p[2] & 15], kValues[p[3] & 15]};
    const Vec odd{kValues[p[0] >> 4], kValues[p[1] >> 4], kValues[p[2] >> 4], kValues[p[3] >> 4]};
    return {even * scale, odd * scale};
  }
};

struct PortableStrips {
  static constexpr int kStripRows{4};
  static constexpr int kTileTokens{2};
  using Floats = Portable::Vec;
  using Ints = int32_t __attribute__((vector_size(16)));

  static Floats zero() { return Portable::zero(); }
  static Floats broadcast(float x) { return Portable::broadcast(x); }
  static void store(float* p, Floats v) { Portable::store(p, v); }
  static Floats mul(Floats a, Floats b) { return a * b; }
  static Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
  static Floats to_float(Ints v) { return __builtin_convertvector(v, Floats); }

  template <class Words>
  static Ints dot(const Words& words, const int8_t* codes, int32_t offset) {
    Ints sum{offset, offset, offset, offset};
    for (int w = 0; w < 8; ++w)
      for (int r = 0; r < kStripRows; ++r)
        for (int j = 0; j < 4; ++j) sum[r] += words[w][4 * r + j] * codes[4 * w + j];
    return sum;
  }
};

struct Mxfp4 : PortableStrips {
  static constexpr int kCodeBytes{kStripRows * kBlock / 2}, kScaleBytes{kStripRows};
  struct Weights {
    uint8_t words[8][4 * kStripRows];
  };

  static Weights unpack(const uint8_t* p) {
    constexpr uint8_t kDoubledAnd12[16]{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    Weights weights;
    for (int v = 0; v < 4; ++v)
      for (int i = 0; i < 4 * kStripRows; ++i) {
        weights.words[2 * v][i] = kDoubledAnd12[p[4 * kStripRows * v + i] & 15];
        weights.words[2 * v + 1][i] = kDoubledAnd12[p[4 * kStripRows * v + i] >> 4];
      }
    return weights;
  }
  static Floats scale(const uint8_t* p) {
    return Floats{kE8m0.of[p[0]], kE8m0.of[p[1]], kE8m0.of[p[2]], kE8m0.of[p[3]]};
  }
  static Ints dot(const Weights& weights, const Q8Block& x) {
    return PortableStrips::dot(weights.words, x.codes, x.offset);
  }
};

struct Q8_0 : PortableStrips {
  static constexpr int kCodeBytes{kStripRows * kBlock}, kScaleBytes{2 * kStripRows};
  struct Weights {
    int8_t words[8][4 * kStripRows];
  };

  static Weights unpack(const uint8_t* p) {
    Weights weights;
    __builtin_memcpy(&weights, p, sizeof weights);
    return weights;
  }
  // Returns twice the IEEE half at p. core/numbers/f16.h explains the conversion.
  static float doubled(const uint8_t* p) {
    uint16_t half;
    __builtin_memcpy(&half, p, sizeof half);
    const uint32_t sign = uint32_t{half & 0x8000u} << 16, magnitude = half & 0x7FFFu;
    if (magnitude >= 0x7C00u)
      return __builtin_bit_cast(float, sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
    const float value = __builtin_bit_cast(float, magnitude << 13) * 0x1p113f;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, value));
  }
  static Floats scale(const uint8_t* p) {
    return Floats{doubled(p), doubled(p + 2), doubled(p + 4), doubled(p + 6)};
  }
  static Ints dot(const Weights& weights, const Q8Block& x) {
    return PortableStrips::dot(weights.words, x.codes, 0);
  }
};

}  // namespace

namespace portable {
void strip_mxfp4(const StripArgs& args) { strips<Mxfp4>(args); }
void strip_q8_0(const StripArgs& args) { strips<Q8_0>(args); }
void dot_bf16(const DotArgs& args) { dot<Portable, Bf16Row<Portable>>(args); }
void dot_e4m3(const DotArgs& args) { dot<Portable, E4m3Row<Portable>>(args); }
void dot_mxfp4(const DotArgs& args) { dot<Portable, Mxfp4Row<Portable>>(args); }
void weigh_bf16(const WeighArgs& args) { weigh<Portable, Bf16Row<Portable>>(args); }
void weigh_e4m3(const WeighArgs& args) { weigh<Portable, E4m3Row<Portable>>(args); }
}  // namespace portable

}  // namespace nibble::cpu
