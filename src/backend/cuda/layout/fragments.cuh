// Converts the words of a tile (strips.h) to bfloat16 weights, a lane's operands for the tensor cores. MXFP4
// weights are multiplied by their scale here. So the mma.sync or wgmma instructions of a segment add to one
// sum, and no scaling comes between them: that is fastest. The product of a code and its scale is exact: a
// code has two significant bits, and a scale is a power of two (packing rejects scales beyond bfloat16's
// range). E4M3 weights have a scale per row, which is applied to the sums.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/layout/strips.h"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {

__device__ inline uint32_t multiply_pair(uint32_t a, __nv_bfloat162 b) {
  const __nv_bfloat162 product = __hmul2(reinterpret_cast<const __nv_bfloat162&>(a), b);
  return reinterpret_cast<const uint32_t&>(product);
}

// A lane's A registers for the two mma.m16n8k16 instructions that multiply a group of 32 columns (strips.h).
struct GroupWeights {
  uint32_t first[4], second[4];
};

// Unpacks a word of MXFP4 codes to four A registers. Shifted and masked, a code is a bfloat16: the code's
// value times 2^-126. The stored scales include the factor 2^126 that makes up for this. `scales`: the scales
// of row g = lane / 4 (lower half of the word) and of row g + 8 (upper half).
__device__ inline void unpack_mxfp4(uint32_t word, uint32_t scales, uint32_t (&a)[4]) {
  const auto& pair = reinterpret_cast<const __nv_bfloat162&>(scales);
  const __nv_bfloat162 upper = __low2bfloat162(pair),
                       lower = __high2bfloat162(pair);  // takes no instruction: HMUL2 can read one half twice
  constexpr uint32_t kCode{0x81C081C0};
  const uint32_t turned = __funnelshift_l(word, word, 6);
  a[0] = multiply_pair(word & kCode, upper);
  a[1] = multiply_pair((word << 3) & kCode, lower);
  a[2] = multiply_pair(turned & kCode, upper);
  a[3] = multiply_pair((turned & 0x001B001Bu) * (1u << 14 | 1u << 8 | 1u << 3) & kCode, lower);
}

// Unpacks E4M3 codes to four A registers. `upper`: word of row g = lane / 4. `lower`: word of row g + 8.
// Shifted and masked, a code is a bfloat16: the code's value times 2^-120. kScale makes up for this factor.
__device__ inline void unpack_e4m3(uint32_t upper, uint32_t lower, uint32_t (&a)[4]) {
  const __nv_bfloat162 kScale = __float2bfloat162_rn(0x1p120f);
  const auto second = [](uint32_t word) { return ((word << 4) & 0x80F080F0u) | ((word >> 4) & 0x07000700u); };
  a[0] = multiply_pair(upper & 0x87F087F0u, kScale);
  a[1] = multiply_pair(lower & 0x87F087F0u, kScale);
  a[2] = multiply_pair(second(upper), kScale);
  a[3] = multiply_pair(second(lower), kScale);
}

// Returns a lane's weights of one group of 32 columns. `tile`: shared address of the strip's tile. This
// function needs fewer registers than class TileWords.
template <Layout layout>
__device__ GroupWeights group_weights(uint32_t tile, int group) {
  const int lane = threadIdx.x % 32;
  GroupWeights w;
  if constexpr (layout == Layout::kBf16) {
    const auto load = [&](int m, uint32_t(&a)[4]) {
      const uint4 words = load_shared_16(tile + (2 * group + m) * 512 + lane * 16);
      a[0] = words.x, a[1] = words.y, a[2] = words.z, a[3] = words.w;
    };
    load(0, w.first);
    load(1, w.second);
  } else if constexpr (layout == Layout::kE4m3) {
    const uint4 codes = load_shared_16(tile + group * 512 + lane * 16);
    unpack_e4m3(codes.x, codes.y, w.first);
    unpack_e4m3(codes.z, codes.w, w.second);
  } else {
    const uint4 codes = load_shared_16(tile + lane * 16);
    const uint32_t scales = load_shared_4(tile + kTileCodeBytes + lane / 4 * 4);
    // A stored scale byte is the exponent of a bfloat16. The shift moves it to bits 14-7.
    const uint32_t of_group = __byte_perm(scales, 0, group ? 0x4342 : 0x4140) << 7;
    unpack_mxfp4(group ? codes.z : codes.x, of_group, w.first);
    unpack_mxfp4(group ? codes.w : codes.y, of_group, w.second);
  }
  return w;
}

// A lane's weights of a tile. unpack(group, a) converts the weights of a group of 32 columns: a[0] and a[1]
// are the A registers of the two mma.m16n8k16 instructions that multiply the group. The codes of MXFP4 and
// E4M3 are loaded only once, in the constructor; BF16 weights are loaded by unpack().
template <Layout layout>
class TileWords {
 public:
  __device__ TileWords(uint32_t tile, int lane) : lane_(tile + lane * 16) {
    if constexpr (layout != Layout::kBf16)
      for (int i = 0; i < kLoads; ++i) words_[i] = load_shared_16(lane_ + i * 512);
    if constexpr (layout == Layout::kMxfp4) scales_ = load_shared_4(tile + kTileCodeBytes + lane / 4 * 4);
  }
  __device__ void unpack(int group, uint32_t (&a)[2][4]) const {
    if constexpr (layout == Layout::kMxfp4) {
      const uint32_t scales = __byte_perm(scales_, 0, group ? 0x4342 : 0x4140) << 7;
      unpack_mxfp4(group ? words_[0].z : words_[0].x, scales, a[0]);
      unpack_mxfp4(group ? words_[0].w : words_[0].y, scales, a[1]);
    } else if constexpr (layout == Layout::kE4m3) {
      unpack_e4m3(words_[group].x, words_[group].y, a[0]);
      unpack_e4m3(words_[group].z, words_[group].w, a[1]);
    } else {
      for (int m = 0; m < 2; ++m) {
        const uint4 words = load_shared_16(lane_ + (2 * group + m) * 512);
        a[m][0] = words.x, a[m][1] = words.y, a[m][2] = words.z, a[m][3] = words.w;
      }
    }
  }

 private:
  static constexpr int kLoads{layout == Layout::kE4m3 ? 2 : 1};
  uint32_t lane_;
  uint4 words_[kLoads]{};
  uint32_t scales_{0};  // MXFP4 only: scales of rows g = lane / 4 and g + 8, for both groups of 32 columns
};

}  // namespace nibble::cuda
