// Random operands of a block-scaled mma, as matrices and as the registers of a warp. Here lanes are mapped to
// elements, as in the tables of the PTX ISA; block_truth.cpp maps elements to lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/verify/block_truth.h"
#include "core/numbers/random.h"

namespace nibble::cuda::verify::test {

// Codes are E2M1 nibbles or E4M3 bytes. Each scale belongs to 32 columns.
struct BlockMatrices {
  BlockForm form;
  uint8_t a[16][64]{}, b[8][64]{};
  uint8_t a_scale[16][2]{}, b_scale[8][2]{};
  double d[16][8]{};

  int cols() const { return contraction(form); }
};

// Returns random operands. Scales are between 2^-spread and 2^spread. No code is NaN.
inline BlockMatrices random_matrices(BlockForm form, uint64_t seed, int spread) {
  BlockMatrices m{form};
  uint64_t next = 0;
  const auto random = [&](int count) {
    return static_cast<int>(random_bits(seed, next++) % static_cast<uint64_t>(count));
  };
  const auto scale = [&] { return static_cast<uint8_t>(127 - spread + random(2 * spread + 1)); };
  for (int k = 0; k < m.cols(); ++k) {
    for (auto& row : m.a) row[k] = static_cast<uint8_t>(random(16));
    for (auto& column : m.b)
      column[k] = static_cast<uint8_t>(form == BlockForm::kMxfp8 ? random(127) | random(2) << 7 : random(16));
  }
  for (int block = 0; block < m.cols() / 32; ++block) {
    for (auto& row : m.a_scale) row[block] = scale();
    for (auto& column : m.b_scale) column[block] = scale();
  }
  for (auto& row : m.d)
    for (double& value : row) value = random(257) - 128;
  return m;
}

// Returns the operands as registers. Scale bytes that the mma must not read are random.
inline WarpRegisters registers_of(const BlockMatrices& m, int a_byte, int b_byte, uint64_t seed) {
  const bool is_wide = m.form == BlockForm::kMxfp8;
  const int codes = is_wide ? 4 : 8, bits = is_wide ? 8 : 4;
  WarpRegisters warp{};
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < codes; ++i) {
      const auto put = [&](uint32_t& word, int code) { word |= static_cast<uint32_t>(code) << bits * i; };
      const int near = codes * t + i, far = near + m.cols() / 2;
      const int up = is_wide ? 2 : 0;  // a 4-bit code occupies bits 5-2 of its container
      put(warp.a[lane][0], m.a[g][near] << up);
      put(warp.a[lane][1], m.a[g + 8][near] << up);
      put(warp.a[lane][2], m.a[g][far] << up);
      put(warp.a[lane][3], m.a[g + 8][far] << up);
      put(warp.b[lane][0], m.b[g][near]);
      put(warp.b[lane][1], m.b[g][far]);
    }
    warp.a_scale[lane] = static_cast<uint32_t>(random_bits(seed, static_cast<uint64_t>(lane)));
    warp.b_scale[lane] = static_cast<uint32_t>(random_bits(seed, static_cast<uint64_t>(lane) + 32));
    for (int block = 0; block < m.cols() / 32; ++block) {
      const auto set = [](uint32_t& word, int byte, uint8_t value) {
        word = (word & ~(0xFFu << 8 * byte)) | uint32_t{value} << 8 * byte;
      };
      if (t == 0) set(warp.a_scale[lane], a_byte + block, m.a_scale[g][block]);
      if (t == 1) set(warp.a_scale[lane], a_byte + block, m.a_scale[g + 8][block]);
      if (t == 0) set(warp.b_scale[lane], b_byte + block, m.b_scale[g][block]);
    }
    warp.d[lane][0] = static_cast<float>(m.d[g][2 * t]);
    warp.d[lane][1] = static_cast<float>(m.d[g][2 * t + 1]);
    warp.d[lane][2] = static_cast<float>(m.d[g + 8][2 * t]);
    warp.d[lane][3] = static_cast<float>(m.d[g + 8][2 * t + 1]);
  }
  return warp;
}

struct BlockBytePair {
  int a, b;
};
inline std::vector<BlockBytePair> byte_pairs(BlockForm form) {
  std::vector<BlockBytePair> pairs;
  const int step = form == BlockForm::kMxfp8 ? 1 : 2;
  for (int a = 0; a < 4; a += step)
    for (int b = 0; b < 4; b += step) pairs.push_back({a, b});
  return pairs;
}

}  // namespace nibble::cuda::verify::test
