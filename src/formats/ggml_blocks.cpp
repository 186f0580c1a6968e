#include "formats/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/bf16.h"
#include "core/check.h"
#include "core/f16.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

constexpr size_t kHalf{16};  // half a block of 32: the low nibbles hold elements 0 to 15
constexpr size_t kMxfp4Bytes{17};

const uint8_t* bytes_at(const std::byte* block, size_t at) {
  return reinterpret_cast<const uint8_t*>(block) + at;
}

float half_at(const std::byte* block, size_t at) {
  F16 half;
  std::memcpy(&half, block + at, sizeof(half));
  return to_float(half);
}

uint32_t word_at(const std::byte* block, size_t at) {
  uint32_t word;
  std::memcpy(&word, block + at, sizeof(word));
  return word;
}

// Writes value(q) for a block's 32 codes q. Low four bits: in `qs`; fifth bit of code j: bit j of `high`.
template <typename Value>
void each_of_32(const uint8_t* qs, uint32_t high, float* to, const Value& value) {
  for (size_t j = 0; j < kHalf; ++j) {
    to[j] = value((qs[j] & 15) | (high >> j & 1) << 4);
    to[j + kHalf] = value((qs[j] >> 4) | (high >> (j + kHalf) & 1) << 4);
  }
}

void decode_f32(const std::byte* block, float* to) { std::memcpy(to, block, sizeof(float)); }
void decode_f16(const std::byte* block, float* to) { *to = half_at(block, 0); }
void decode_bf16(const std::byte* block, float* to) {
  Bf16 value;
  std::memcpy(&value, block, sizeof(value));
  *to = to_float(value);
}

void decode_q8_0(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  for (size_t j = 0; j < 2 * kHalf; ++j)
    to[j] = d * static_cast<float>(static_cast<int8_t>(*bytes_at(block, 2 + j)));
}

void decode_q4_0(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  each_of_32(bytes_at(block, 2), 0, to, [d](uint32_t q) { return d * (static_cast<float>(q) - 8); });
}

void decode_q4_1(const std::byte* block, float* to) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  each_of_32(bytes_at(block, 4), 0, to, [d, m](uint32_t q) { return d * static_cast<float>(q) + m; });
}

void decode_q5_0(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  each_of_32(bytes_at(block, 6), word_at(block, 2), to,
             [d](uint32_t q) { return d * (static_cast<float>(q) - 16); });
}

void decode_q5_1(const std::byte* block, float* to) {
  const float d = half_at(block, 0), m = half_at(block, 2);
  each_of_32(bytes_at(block, 8), word_at(block, 4), to,
             [d, m](uint32_t q) { return d * static_cast<float>(q) + m; });
}

void decode_mxfp4_block(const std::byte* block, float* to) {
  Mxfp4Block unpacked;
  unpack_mxfp4({block, kMxfp4Bytes}, unpacked.codes, {&unpacked.scale.bits, 1});
  std::ranges::copy(decode(unpacked), to);
}

void decode_mxfp4_of_ollama(const std::byte* block, float* to) {
  Mxfp4Block unpacked;
  split_mxfp4({block, kMxfp4Bytes}, unpacked.codes, {&unpacked.scale.bits, 1});
  std::ranges::copy(decode(unpacked), to);
}

// Scale and minimum of sub-block j (of 8). The 16 numbers of 6 bits are packed in 12 bytes. Of the last four
// sub-blocks, the low four bits are the nibbles of s[8..11], and the high two bits the top bits of s[0..7].
struct KScale {
  float scale, minimum;
};
KScale k_scale(const uint8_t* s, size_t j) {
  if (j < 4) return {static_cast<float>(s[j] & 63), static_cast<float>(s[j + 4] & 63)};
  return {static_cast<float>((s[j + 4] & 15) | (s[j - 4] >> 6) << 4),
          static_cast<float>((s[j + 4] >> 4) | (s[j] >> 6) << 4)};
}

// Decodes Q4_K and Q5_K: x = d scale q - dmin minimum, in sub-blocks of 32. Sub-blocks 2t and 2t + 1 are the
// low and high nibbles of qs[32t .. 32t + 31]; high(j, l) is the fifth bit of element l of sub-block j.
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

void decode_q4_k(const std::byte* block, float* to) {  // block: d, dmin, scales[12], qs[128]
  decode_k(
      block, 16, [](size_t, size_t) { return 0u; }, to);
}

void decode_q5_k(const std::byte* block, float* to) {  // block: d, dmin, scales[12], qh[32], qs[128]
  const uint8_t* qh = bytes_at(block, 16);
  decode_k(
      block, 48, [qh](size_t j, size_t l) { return qh[l] >> j & 1u; }, to);
}

// Block: ql[128], qh[64], int8 scales[16], d. x = d scale (q - 32), with one scale per 16 elements. Each half
// of 128 elements is four groups of 32. All four share 32 bytes of qh, with two bits of each byte per group.
// Groups 0 and 2 share 32 bytes of ql, with one nibble of each byte per group; so do groups 1 and 3.
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

using Decode = void (*)(const std::byte* block, float* to);
Decode decoder(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return &decode_f32;
    case GgmlType::kF16:
      return &decode_f16;
    case GgmlType::kBf16:
      return &decode_bf16;
    case GgmlType::kQ8_0:
      return &decode_q8_0;
    case GgmlType::kQ4_0:
      return &decode_q4_0;
    case GgmlType::kQ4_1:
      return &decode_q4_1;
    case GgmlType::kQ5_0:
      return &decode_q5_0;
    case GgmlType::kQ5_1:
      return &decode_q5_1;
    case GgmlType::kQ4K:
      return &decode_q4_k;
    case GgmlType::kQ5K:
      return &decode_q5_k;
    case GgmlType::kQ6K:
      return &decode_q6_k;
    case GgmlType::kMxfp4:
      return &decode_mxfp4_block;
    case GgmlType::kMxfp4Ollama:
      return &decode_mxfp4_of_ollama;
  }
  NIBBLE_CHECK(false, "ggml type {}", static_cast<uint32_t>(type));
}

}  // namespace

void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> values) {
  const size_t elements = block_elements(type), bytes = block_bytes(type);
  NIBBLE_CHECK(values.size() % elements == 0 && blocks.size() == values.size() / elements * bytes,
               "{} values of {} in {} bytes", values.size(), name(type), blocks.size());
  const Decode decode_block = decoder(type);
  const std::byte* from = blocks.data();
  for (float* to = values.data(); to != values.data() + values.size(); to += elements, from += bytes)
    decode_block(from, to);
}

void quantise_q8_0(std::span<const float> values, std::span<std::byte> blocks) {
  constexpr size_t kElements{32}, kBytes{34};
  NIBBLE_CHECK(values.size() % kElements == 0 && blocks.size() == values.size() / kElements * kBytes,
               "{} values in {} bytes", values.size(), blocks.size());
  std::byte* to = blocks.data();
  for (size_t first = 0; first < values.size(); first += kElements, to += kBytes) {
    const auto block = values.subspan(first, kElements);
    float largest = 0;
    for (const float x : block) largest = std::max(largest, std::abs(x));
    const float d = largest / 127, per_d = d == 0 ? 0 : 1 / d;
    const F16 half = to_f16(d);
    std::memcpy(to, &half, sizeof(half));
    for (size_t j = 0; j < kElements; ++j)
      to[2 + j] = static_cast<std::byte>(
          static_cast<int8_t>(std::clamp(std::round(block[j] * per_d), -127.f, 127.f)));
  }
}

namespace {

// Writes the scales of MXFP4 blocks, and the codes by unpack(16 bytes of a block, destination).
template <typename Unpack>
void for_mxfp4_blocks(std::span<const std::byte> blocks, std::span<uint8_t> codes, std::span<uint8_t> scales,
                      const Unpack& unpack) {
  const size_t count = blocks.size() / kMxfp4Bytes;
  NIBBLE_CHECK(blocks.size() % kMxfp4Bytes == 0 &&
                   (codes.empty() || codes.size() == count * kMxfp4CodeBytes) &&
                   (scales.empty() || scales.size() == count),
               "{} bytes, {} codes, {} scales", blocks.size(), codes.size(), scales.size());
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* block = bytes_at(blocks.data(), i * kMxfp4Bytes);
    if (!scales.empty()) scales[i] = block[0];
    if (!codes.empty()) unpack(block + 1, codes.data() + i * kMxfp4CodeBytes);
  }
}

}  // namespace

// In nibble's layout, byte b of the codes holds elements 2b and 2b + 1; in GGUF's, byte j holds j and j + 16.
void unpack_mxfp4(std::span<const std::byte> blocks, std::span<uint8_t> codes, std::span<uint8_t> scales) {
  for_mxfp4_blocks(blocks, codes, scales, [](const uint8_t* qs, uint8_t* to) {
    for (size_t b = 0; b < kMxfp4CodeBytes / 2; ++b) {
      to[b] = static_cast<uint8_t>((qs[2 * b] & 15) | (qs[2 * b + 1] & 15) << 4);
      to[b + 8] = static_cast<uint8_t>(qs[2 * b] >> 4 | (qs[2 * b + 1] >> 4) << 4);
    }
  });
}

void split_mxfp4(std::span<const std::byte> blocks, std::span<uint8_t> codes, std::span<uint8_t> scales) {
  for_mxfp4_blocks(blocks, codes, scales,
                   [](const uint8_t* qs, uint8_t* to) { std::copy_n(qs, kMxfp4CodeBytes, to); });
}

void pack_mxfp4(std::span<const uint8_t> codes, std::span<const uint8_t> scales,
                std::span<std::byte> blocks) {
  NIBBLE_CHECK(
      codes.size() == scales.size() * kMxfp4CodeBytes && blocks.size() == scales.size() * kMxfp4Bytes,
      "{} codes, {} scales, {} bytes", codes.size(), scales.size(), blocks.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    const uint8_t* from = codes.data() + i * kMxfp4CodeBytes;
    auto* block = reinterpret_cast<uint8_t*>(blocks.data()) + i * kMxfp4Bytes;
    block[0] = scales[i];
    for (size_t b = 0; b < kMxfp4CodeBytes / 2; ++b) {
      block[1 + 2 * b] = static_cast<uint8_t>((from[b] & 15) | (from[b + 8] & 15) << 4);
      block[2 + 2 * b] = static_cast<uint8_t>(from[b] >> 4 | (from[b + 8] >> 4) << 4);
    }
  }
}

}  // namespace nibble
