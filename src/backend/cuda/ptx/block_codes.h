// Operands of a block-scaled mma (block_mma.cuh), on host and device: the order of codes in a lane's
// registers, and how MXFP4 weights (layout/strips.h) are unpacked into that order. A (weights) has 16 rows, B
// (activations) 8 tokens; g = lane / 4, t = lane % 4. "Columns" below means columns of the contraction.
//
//  kMxfp8   m16n8k32: A is E2M1 in 8-bit containers: sign, exponent and mantissa at bits 5-2, zeros elsewhere
//           (the hardware reads bits 1 and 0 as more mantissa). B is E4M3. a0, a1: rows g, g + 8 in columns
//           4 t + {0..3}. a2, a3: these rows in columns 16 + 4 t + {0..3}. b0: token g in the columns of a0.
//           b1: token g in the columns of a2.
//  kMxfp4   m16n8k64: A and B are E2M1, eight codes per register, low nibble first. a0, a1: rows g, g + 8 in
//           columns 8 t + {0..7}. a2, a3: these rows in columns 32 + 8 t + {0..7}. b0: token g in the columns
//           of a0. b1: token g in the columns of a2.
//
// Within a block of 32 columns, any order that A and B share gives the same result. A lane's eight adjacent
// columns 8 t + c, with c = 4 m + 2 j + h (bits m, j, h), go to the places that are cheapest to unpack:
//
//  kMxfp8   place 4 j + 2 h + m: register j, byte 2 h + m. Columns by place: 0 4 1 5 2 6 3 7.
//  kMxfp4   place 4 h + 2 m + j: byte 2 h + m, nibble j. Columns by place: 0 2 4 6 1 3 5 7.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace nibble::cuda {

// Packed weights store each E8M0 scale byte with kScaleOffset added to it. Packing accepts scale bytes up to
// kLargestScale, a scale of 2^(128 - 127) = 2: weights are at most 6 x 2 = 12. The scales of gpt-oss are at
// most 2^-3.
inline constexpr int kLargestScale{128}, kScaleOffset{126};

enum class BlockForm { kMxfp8, kMxfp4 };  // format of the activations; weights are MXFP4 in both

inline constexpr int kBlockCols{32};  // columns that share one scale
// Returns the number of columns of the contraction that one mma sums.
constexpr int contraction(BlockForm form) { return form == BlockForm::kMxfp8 ? 32 : 64; }

constexpr int place_of(BlockForm form, int c) {  // returns the place (0 to 7) of column c of a lane's eight
  return form == BlockForm::kMxfp8 ? (c << 1 | c >> 2) & 7 : (c >> 1 | c << 2) & 7;
}

// Returns four of the eight bytes of x (numbers 0 to 3) and y (4 to 7). Each hex digit of `bytes` is the
// number of a byte; the lowest digit selects the lowest byte of the result. Shifts and masks would be slower:
// the compiler does not turn them into __byte_perm.
__host__ __device__ inline uint32_t choose_bytes(uint32_t x, uint32_t y, uint32_t bytes) {
#ifdef __CUDA_ARCH__
  return __byte_perm(x, y, bytes);
#else
  const uint64_t both = uint64_t{y} << 32 | x;
  uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i)
    chosen |= static_cast<uint32_t>(both >> 8 * (bytes >> 4 * i & 7) & 0xFF) << 8 * i;
  return chosen;
#endif
}

// Unpacks a lane's two MXFP4 words (layout/strips.h) of a block of 32 columns to A registers of kMxfp8.
// Takes 19 instructions for 16 codes: the words' bytes are interleaved first, so that shifts move codes only
// within bytes.
__host__ __device__ inline void unpack_containers(uint32_t first, uint32_t second, uint32_t (&a)[4]) {
  const uint32_t low = choose_bytes(first, second, 0x6240), high = choose_bytes(first, second, 0x7351);
  const uint32_t high_left_4 = high << 4;
  const uint32_t other_left_2 = high << 18 | high >> 14,  // `high` rotated left by 16 + 2 bits
      other_right_3 = high << 13 | high >> 19;            // `high` rotated left by 16 - 3 bits
  a[0] = (high >> 2 & 0x20202020u) | (high_left_4 & 0x10101010u) | (low >> 4 & 0x0C0C0C0Cu);
  a[1] = (high << 1 & 0x20202020u) | (low >> 1 & 0x1C1C1C1Cu);
  a[2] = (high_left_4 & 0x20202020u) | (low << 2 & 0x1C1C1C1Cu);
  a[3] = (other_left_2 & 0x30303030u) | (other_right_3 & 0x0C0C0C0Cu);
}

// Unpacks a lane's four MXFP4 words of a tile, two per block of 32 columns, to A registers of kMxfp4.
__host__ __device__ inline void unpack_nibbles(const uint32_t (&words)[4], uint32_t (&a)[4]) {
  for (int group = 0; group < 2; ++group) {
    uint32_t containers[4]{};
    unpack_containers(words[2 * group], words[2 * group + 1], containers);
    a[2 * group] = containers[0] >> 2 | containers[2] << 2;
    a[2 * group + 1] = containers[1] >> 2 | containers[3] << 2;
  }
}

// Returns the register of A's scales that this lane must pass to the mma of a tile. `word`: the tile's
// scale word for rows g and g + 8 (layout/strips.h). Of the four lanes of a quad, lane t = 0 passes the
// scales of row g, lane t = 1 those of row g + 8; the hardware ignores the other two. Bytes 0 and 2 are for
// columns 0-31 of the tile, 1 and 3 for columns 32-63. Every stored byte is at least kScaleOffset, so the
// subtraction never borrows.
__host__ __device__ inline uint32_t weight_scales(uint32_t word, int lane) {
  return choose_bytes(word, word, lane % 2 == 0 ? 0x2020 : 0x3131) - kScaleOffset * 0x01010101u;
}

}  // namespace nibble::cuda
