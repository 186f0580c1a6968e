// Decodes the K types: blocks of 256 elements, with a scale for each 16 or 32 of them.
#include "formats/ggml_decoders.h"

namespace nibble {
namespace {

// Scale and minimum of sub-block j (of 8): 16 numbers of 6 bits in 12 bytes. Those of sub-blocks 0 to 3 are
// the low six bits of s[0..7]. Those of sub-blocks 4 to 7 have their low four bits in the nibbles of
// s[8..11], and their high two bits in the top bits of s[0..7].
struct KScale {
  float scale, minimum;
};
KScale k_scale(const uint8_t* s, size_t j) {
  if (j < 4) return {static_cast<float>(s[j] & 63), static_cast<float>(s[j + 4] & 63)};
  return {static_cast<float>((s[j + 4] & 15) | (s[j - 4] >> 6) << 4),
          static_cast<float>((s[j + 4] >> 4) | (s[j] >> 6) << 4)};
}

// Decodes Q4_K and Q5_K: x = d * scale * q - dmin * minimum, in sub-blocks of 32. The codes of sub-blocks 2t
// and 2t + 1 are the low and high nibbles of qs[32t .. 32t + 31]. high(j, l) is the fifth bit of element l of
// sub-block j.
template <typename High>
void decode_k(const std::byte* block, size_t qs_at, const High& high, float* to) {
  const float d = half_at(block, 0), dmin = half_at(block, 2);
  const uint8_t *scales = bytes_at(block, 4), *qs = bytes_at(block, qs_at);
  for (size_t j = 0; j < 8; ++j) {
    const KScale sub = k_scale(scales, j);
    const float scale = d * sub.scale, minimum = dmin * sub.minimum;
    for (size_t l = 0; l < 32; ++l) {
      const uint8_t pair = qs[j / 2 * 32 + l];
      const uint32_t q = (j % 2 == 0 ? pair & 15u : pair >> 4u) | high(j, l) << 4;
      to[32 * j + l] = scale * static_cast<float>(q) - minimum;
    }
  }
}

}  // namespace

void decode_q4_k(const std::byte* block, float* to) {  // block: d, dmin, scales[12], qs[128]
  decode_k(
      block, 16, [](size_t, size_t) { return 0u; }, to);
}

void decode_q5_k(const std::byte* block, float* to) {  // block: d, dmin, scales[12], qh[32], qs[128]
  const uint8_t* qh = bytes_at(block, 16);
  decode_k(
      block, 48, [qh](size_t j, size_t l) { return qh[l] >> j & 1u; }, to);
}

// Block: ql[128], qh[64], int8 scales[16], d. x = d * scale * (q - 32), with one scale per 16 elements. Each
// half of 128 elements is four groups of 32. All four share 32 bytes of qh, with two bits of each byte per
// group. Groups 0 and 2 share 32 bytes of ql, with one nibble of each byte per group; groups 1 and 3 share
// the next 32.
void decode_q6_k(const std::byte* block, float* to) {
  const float d = half_at(block, 208);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t *ql = bytes_at(block, 64 * half), *qh = bytes_at(block, 128 + 32 * half),
                  *scales = bytes_at(block, 192 + 8 * half);
    for (size_t group = 0; group < 4; ++group)
      for (size_t l = 0; l < 32; ++l) {
        const uint8_t pair = ql[32 * (group % 2) + l];
        const int low = group < 2 ? pair & 15 : pair >> 4;
        const int q = (low | (qh[l] >> (2 * group) & 3) << 4) - 32;
        const auto scale = static_cast<float>(static_cast<int8_t>(scales[2 * group + l / 16]));
        to[128 * half + 32 * group + l] = d * scale * static_cast<float>(q);
      }
  }
}

// Block: scales[16], qs[64], d, dmin. x = d * scale * q - dmin * minimum. A byte of `scales` is for 16
// elements: the scale in the low nibble, the minimum in the high one. Each half of 128 elements is four
// groups of 32, which share 32 bytes of qs, with two bits of each byte per group.
void decode_q2_k(const std::byte* block, float* to) {
  const float d = half_at(block, 80), dmin = half_at(block, 82);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t *scales = bytes_at(block, 8 * half), *qs = bytes_at(block, 16 + 32 * half);
    for (size_t group = 0; group < 4; ++group)
      for (size_t l = 0; l < 32; ++l) {
        const uint8_t sub = scales[2 * group + l / 16];
        const float scale = d * static_cast<float>(sub & 15), minimum = dmin * static_cast<float>(sub >> 4);
        to[128 * half + 32 * group + l] = scale * static_cast<float>(qs[l] >> (2 * group) & 3) - minimum;
      }
  }
}

// Block: hmask[32], qs[64], scales[12], d. x = d * scale * (q - 4). The low two bits of q are in qs as for
// Q2_K; the third bit of element l of group g (of 8) is bit g of hmask[l]. Scale s (of 16) has 6 bits and is
// stored with 32 added: the low four bits are a nibble of scales[s % 8], the high two are bits 2(s / 4) and
// 2(s / 4) + 1 of scales[8 + s % 4].
void decode_q3_k(const std::byte* block, float* to) {
  const float d = half_at(block, 108);
  const uint8_t *hmask = bytes_at(block, 0), *packed = bytes_at(block, 96);
  float scales[16];
  for (size_t s = 0; s < 16; ++s) {
    const int bits = (s < 8 ? packed[s] & 15 : packed[s - 8] >> 4) | (packed[8 + s % 4] >> (2 * (s / 4)) & 3)
                                                                         << 4;
    scales[s] = d * static_cast<float>(bits - 32);
  }
  for (size_t group = 0; group < 8; ++group) {
    const uint8_t* qs = bytes_at(block, 32 + 32 * (group / 4));
    for (size_t l = 0; l < 32; ++l) {
      const int q = (qs[l] >> (2 * (group % 4)) & 3) | (hmask[l] >> group & 1) << 2;
      to[32 * group + l] = scales[2 * group + l / 16] * static_cast<float>(q - 4);
    }
  }
}

}  // namespace nibble
