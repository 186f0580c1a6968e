// MXFP4 of the OCP Microscaling specification: 32 neighbours in a row share a power-of-two scale; each is one E2M1
// number, one nibble. 17 bytes for 32 values.
//
//   value[2b]     = e2m1(codes[b] & 15) * 2^(scale - 127)      b = 0..15
//   value[2b + 1] = e2m1(codes[b] >> 4) * 2^(scale - 127)
//
// This is the layout of gpt-oss's safetensors files: codes [..., K/32, 16] and scales [..., K/32] in two arrays. (GGUF
// keeps elements 0..15 of a block in the low nibbles and 16..31 in the high ones.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/e8m0.h"

namespace nibble {

constexpr size_t kMxfp4BlockSize{32};  // values
constexpr size_t kMxfp4CodeBytes{16};  // for one block, without its scale

struct Mxfp4Block {
  std::array<uint8_t, kMxfp4CodeBytes> codes{};
  E8m0 scale{};
};

// Rules for choosing a block's scale from its largest magnitude a, and for rounding ties. They differ for the largest values:
// 7 becomes 6 by the floor rules and 8 by the ceil rule.
enum class Mxfp4Rule {
  kOcp,  // 2^(floor(log2 a) - 2), ties to even; a over 6 scales is cut to 6 (the specification's suggestion)
  kLlamaCpp,  // the same scale, ties to the smaller magnitude, never -0 (llama.cpp: quantize_row_mxfp4_ref)
  kCeil,      // 2^ceil(log2(a / 6)), ties to even: nothing is cut (Triton: downcast_to_mxfp with ROUND_UP)
};

// Exact where float32 can hold the value: 4 and 6 times a scale of 2^126 or more, and 2 and 3 times 2^127, are infinite. The
// NaN scale (255) makes all 32 values NaN.
std::array<float, kMxfp4BlockSize> decode(const Mxfp4Block& block);

// E2M1 has neither NaN nor infinity: a block with such a value gets the NaN scale and zero codes, so that it does not go
// unnoticed.
Mxfp4Block encode(std::span<const float, kMxfp4BlockSize> values, Mxfp4Rule rule = Mxfp4Rule::kOcp);

// Convert whole rows: the number of values is a multiple of 32, codes have half as many bytes, scales a 32nd.
void decode_mxfp4(std::span<const uint8_t> codes, std::span<const uint8_t> scales, std::span<float> values);
void encode_mxfp4(std::span<const float> values, std::span<uint8_t> codes, std::span<uint8_t> scales,
                  Mxfp4Rule rule = Mxfp4Rule::kOcp);

}  // namespace nibble
