// The blocks of ggml's types (formats/gguf.h), d and m IEEE halves, element j of a block of 32:
//
//   Q8_0   d, int8 q[32]              d q                 Q4_0   d, qs[16]           d (q - 8)
//   Q4_1   d, m, qs[16]               d q + m             Q5_0   d, qh, qs[16]       d (q - 16)
//   Q5_1   d, m, qh, qs[16]           d q + m             MXFP4  e, qs[16]           e2m1(q) 2^(e - 127)
//
// with q of element j < 16 the low nibble of qs[j], of element j + 16 the high one, and bit j of qh its fifth bit. The K
// types have blocks of 256 with scales for each 32 or 16; their layout stands at their functions. Source:
// ggml-common.h and ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf.h"

namespace nibble {

// Whole blocks to float32, by the formulas above with each operation rounded to float32, as ggml does it: exact but for
// the sum of those that have one.
void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> values);

// Q8_0 as ggml's reference quantises: d = max|x| / 127, q = x / d to nearest, ties away from zero.
void quantise_q8_0(std::span<const float> values, std::span<std::byte> blocks);

// Between GGUF's MXFP4 blocks and codes and scales in arrays of their own (formats/mxfp4.h). The same numbers: nothing is
// quantised again. `codes` and `scales` have the whole blocks' sizes; either may be empty: not wanted.
void unpack_mxfp4(std::span<const std::byte> blocks, std::span<uint8_t> codes, std::span<uint8_t> scales);
void pack_mxfp4(std::span<const uint8_t> codes, std::span<const uint8_t> scales, std::span<std::byte> blocks);

}  // namespace nibble
