#include "formats/ggml_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/errors/check.h"
#include "core/numbers/bf16.h"
#include "core/numbers/e2m1.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/f16.h"
#include "formats/ggml_decoders.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

constexpr size_t kHalf{16};  // half a block of 32: the low nibbles hold elements 0 to 15
constexpr size_t kMxfp4Bytes{17};

// Writes value(q) for 32 codes q. The low four bits of the codes are in `qs`; the fifth bit of code j is bit
// j of `high`.
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

constexpr float kIq4Values[16]{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void decode_iq4_nl(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  each_of_32(bytes_at(block, 2), 0, to, [d](uint32_t q) { return d * kIq4Values[q]; });
}

// Block: d, 16 bits of scales_h, scales_l[4], qs[128]. Sub-block j (32 elements) has a 6-bit scale, stored
// with 32 added: the low four bits are a nibble of scales_l, the high two are bits 2j and 2j + 1 of scales_h.
void decode_iq4_xs(const std::byte* block, float* to) {
  const float d = half_at(block, 0);
  const uint8_t *high = bytes_at(block, 2), *low = bytes_at(block, 4);
  for (size_t j = 0; j < 8; ++j) {
    const int bits = (low[j / 2] >> (4 * (j % 2)) & 15) | (high[j / 4] >> (2 * (j % 4)) & 3) << 4;
    const float scale = d * static_cast<float>(bits - 32);
    each_of_32(bytes_at(block, 8 + 16 * j), 0, to + 32 * j,
               [scale](uint32_t q) { return scale * kIq4Values[q]; });
  }
}

// Block: four E4M3 scales without a sign, then 8 bytes of codes for each scale. A scale's sub-block has 16
// elements; elements 8 to 15 are the high nibbles. Scales that no writer makes are read as in ggml: 0x7F,
// which is NaN in E4M3, is 0; the top bit has no effect, except that 0xFF is 480.
void decode_nvfp4(const std::byte* block, float* to) {
  constexpr size_t kSubBlocks{4}, kHalfSub{8};
  for (size_t j = 0; j < kSubBlocks; ++j) {
    const uint8_t code = *bytes_at(block, j);
    const float scale = code == 0x7F            ? 0.f
                        : (code & 0x7F) == 0x7F ? 480.f
                                                : to_float(E4m3{static_cast<uint8_t>(code & 0x7F)});
    const uint8_t* qs = bytes_at(block, kSubBlocks + kHalfSub * j);
    for (size_t l = 0; l < kHalfSub; ++l) {
      *(to + 2 * kHalfSub * j + l) = scale * kE2m1Values[qs[l] & 15];
      *(to + 2 * kHalfSub * j + kHalfSub + l) = scale * kE2m1Values[qs[l] >> 4];
    }
  }
}

struct DecoderRow {
  GgmlType type;
  DecodeBlock decode;
};
constexpr DecoderRow kDecoders[] = {
    {GgmlType::kF32, &decode_f32},           {GgmlType::kF16, &decode_f16},
    {GgmlType::kBf16, &decode_bf16},         {GgmlType::kQ8_0, &decode_q8_0},
    {GgmlType::kQ4_0, &decode_q4_0},         {GgmlType::kQ4_1, &decode_q4_1},
    {GgmlType::kQ5_0, &decode_q5_0},         {GgmlType::kQ5_1, &decode_q5_1},
    {GgmlType::kQ2K, &decode_q2_k},          {GgmlType::kQ3K, &decode_q3_k},
    {GgmlType::kQ4K, &decode_q4_k},          {GgmlType::kQ5K, &decode_q5_k},
    {GgmlType::kQ6K, &decode_q6_k},          {GgmlType::kIq2Xxs, &decode_iq2_xxs},
    {GgmlType::kIq2Xs, &decode_iq2_xs},      {GgmlType::kIq2S, &decode_iq2_s},
    {GgmlType::kIq3Xxs, &decode_iq3_xxs},    {GgmlType::kIq3S, &decode_iq3_s},
    {GgmlType::kIq4Nl, &decode_iq4_nl},      {GgmlType::kIq4Xs, &decode_iq4_xs},
    {GgmlType::kMxfp4, &decode_mxfp4_block}, {GgmlType::kMxfp4Ollama, &decode_mxfp4_of_ollama},
    {GgmlType::kNvfp4, &decode_nvfp4},
};

DecodeBlock decoder(GgmlType type) {
  const auto* row = std::ranges::find(kDecoders, type, &DecoderRow::type);
  NIBBLE_CHECK(row != std::end(kDecoders), "ggml type {}", static_cast<uint32_t>(type));
  return row->decode;
}

}  // namespace

void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> values) {
  const size_t elements = block_elements(type), bytes = block_bytes(type);
  NIBBLE_CHECK(values.size() % elements == 0 && blocks.size() == values.size() / elements * bytes,
               "{} values of {} in {} bytes", values.size(), name(type), blocks.size());
  const DecodeBlock decode_block = decoder(type);
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

// Writes the scales of MXFP4 blocks. Lets unpack(16 bytes of a block, destination) write the codes.
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
