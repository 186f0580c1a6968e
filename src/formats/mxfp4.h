// MXFP4 of the OCP Microscaling specification: 32 consecutive values of a row share a power-of-two scale, and
// each value is an E2M1 number of 4 bits. 32 values take 17 bytes.
//   value[2b]     = e2m1(codes[b] & 15) * 2^(scale - 127)      b = 0..15
//   value[2b + 1] = e2m1(codes[b] >> 4) * 2^(scale - 127)
// This is the layout of gpt-oss's safetensors files: codes [..., K/32, 16] and scales [..., K/32] in two
// arrays. (GGUF keeps elements 0..15 of a block in the low nibbles and 16..31 in the high ones.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/numbers/e8m0.h"

namespace nibble {

constexpr size_t kMxfp4BlockSize{32};  // values per block
constexpr size_t kMxfp4CodeBytes{16};  // bytes of codes per block; the scale takes one more

struct Mxfp4Block {
  std::array<uint8_t, kMxfp4CodeBytes> codes{};
  E8m0 scale{};
};

// Rules that choose the scale of a block from its largest magnitude a, and round ties. Example: a = 7 becomes
// 6 by the floor rules (kOcp, kLlamaCpp) and 8 by kCeil.
enum class Mxfp4Rule {
  // 2^(floor(log2 a) - 2), ties to even; saturates above 6 times the scale (suggested by the specification).
  kOcp,
  kLlamaCpp,  // scale as in kOcp; ties to the smaller magnitude, never -0 (llama.cpp: quantize_row_mxfp4_ref)
  kCeil,      // 2^ceil(log2(a / 6)), ties to even; never saturates (Triton: downcast_to_mxfp with ROUND_UP)
};

// Returns the values exactly if float32 can hold them. Others become infinite: 4 and 6 times a scale of 2^126
// or more, 2 and 3 times a scale of 2^127. The NaN scale (255) makes all 32 values NaN.
std::array<float, kMxfp4BlockSize> decode(const Mxfp4Block& block);

// E2M1 lacks NaN and infinity. Such a value gives the NaN scale and zero codes: the error stays visible.
Mxfp4Block encode(std::span<const float, kMxfp4BlockSize> values, Mxfp4Rule rule = Mxfp4Rule::kOcp);

// Whether encode() by kOcp loses nothing: decode() gives the same numbers (-0 equals 0). True of every block
// that was decoded from MXFP4 and has no NaN, no infinity and no number below 2^-124 except zeros.
bool is_exact(std::span<const float, kMxfp4BlockSize> values);

// Convert n values: n must be a multiple of 32, `codes` has n / 2 bytes, and `scales` has n / 32 bytes.
void decode_mxfp4(std::span<const uint8_t> codes, std::span<const uint8_t> scales, std::span<float> values);
void encode_mxfp4(std::span<const float> values, std::span<uint8_t> codes, std::span<uint8_t> scales,
                  Mxfp4Rule rule = Mxfp4Rule::kOcp);

}  // namespace nibble
