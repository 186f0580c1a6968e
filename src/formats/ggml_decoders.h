// The decoders of ggml's block types, for formats/ggml_blocks.cpp: each writes the values of one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/numbers/f16.h"

namespace nibble {

using DecodeBlock = void (*)(const std::byte* block, float* to);

inline const uint8_t* bytes_at(const std::byte* block, size_t at) {
  return reinterpret_cast<const uint8_t*>(block) + at;
}

inline float half_at(const std::byte* block, size_t at) {
  F16 half;
  std::memcpy(&half, block + at, sizeof(half));
  return to_float(half);
}

inline uint32_t word_at(const std::byte* block, size_t at) {
  uint32_t word;
  std::memcpy(&word, block + at, sizeof(word));
  return word;
}

// The next decoders are for blocks of 256 elements; ggml_k_blocks.cpp defines them.
void decode_q2_k(const std::byte* block, float* to);
void decode_q3_k(const std::byte* block, float* to);
void decode_q4_k(const std::byte* block, float* to);
void decode_q5_k(const std::byte* block, float* to);
void decode_q6_k(const std::byte* block, float* to);
// The next decoders are for blocks of 256 elements; ggml_lattice.cpp defines them.
void decode_iq2_xxs(const std::byte* block, float* to);
void decode_iq2_xs(const std::byte* block, float* to);
void decode_iq2_s(const std::byte* block, float* to);
void decode_iq3_xxs(const std::byte* block, float* to);
void decode_iq3_s(const std::byte* block, float* to);

}  // namespace nibble
