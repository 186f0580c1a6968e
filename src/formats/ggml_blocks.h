// Converts blocks of ggml's types (formats/gguf.h). For each type: the fields of a block, and the value of an
// element with code q. A block has 32 elements; d and m are half-precision.
//   Q8_0   d, int8 q[32]              d * q               Q4_0   d, qs[16]           d * (q - 8)
//   Q4_1   d, m, qs[16]               d * q + m           Q5_0   d, qh, qs[16]       d * (q - 16)
//   Q5_1   d, m, qh, qs[16]           d * q + m           MXFP4  e, qs[16]           e2m1(q) * 2^(e - 127)
//   IQ4_NL d, qs[16]                  d * levels[q]
// For j < 16, the low nibble of qs[j] is q of element j, and the high nibble is q of element j + 16. Bit j of
// qh is the fifth bit of q of element j. Other types have larger blocks: NVFP4 of 64 elements; the K types,
// IQ2, IQ3 and IQ4_XS of 256 elements, with a scale per 32 or 16 elements. The functions that decode these
// types describe their layouts. Source: ggml-common.h and ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf.h"

namespace nibble {

// Converts whole blocks to float32 by the formulas above. Each operation is rounded to float32, as in ggml,
// so results are inexact only for types whose formula has a sum.
void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> values);

// Quantises to Q8_0 like ggml's reference: d = max|x| / 127, q = round(x / d), ties away from zero.
void quantise_q8_0(std::span<const float> values, std::span<std::byte> blocks);

// Convert between GGUF's MXFP4 blocks and separate codes and scales (formats/mxfp4.h). The output must have
// room for all blocks. No value changes. unpack_mxfp4() skips an output that is empty.
void unpack_mxfp4(std::span<const std::byte> blocks, std::span<uint8_t> codes, std::span<uint8_t> scales);
// Like unpack_mxfp4(), for blocks of type kMxfp4Ollama.
void split_mxfp4(std::span<const std::byte> blocks, std::span<uint8_t> codes, std::span<uint8_t> scales);
void pack_mxfp4(std::span<const uint8_t> codes, std::span<const uint8_t> scales, std::span<std::byte> blocks);

}  // namespace nibble
