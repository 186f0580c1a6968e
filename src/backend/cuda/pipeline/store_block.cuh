// Quantises activations to a block-scaled format (block_rows.h) and stores them. The activations are already
// rounded to bfloat16.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/layout/block_rows.h"
#include "backend/cuda/ptx/quantise_block.cuh"

namespace nibble::cuda {

// Quantises and stores `x`: the 8 columns of a row from column 8 * `eight` on. The four lanes of a quad must
// hold a block of 32 columns. All lanes of the warp must call it; lanes with is_there == false store nothing.
template <BlockFormat format>
__device__ void store_eight(const BlockRows& to, int row, int eight, bool is_there, const float (&x)[8]) {
  const uint32_t largest = block_largest(x);
  uint8_t* codes = to.codes + row * row_bytes(to) + place_of_codes(format, eight);
  uint8_t scale, second_scale = 0;
  if constexpr (format == BlockFormat::kMxfp4) {
    scale = better_mxfp4_scale(largest, block_errors(x, largest));
    if (!is_there) return;
    *reinterpret_cast<uint32_t*>(codes) = quantise_mxfp4(x, largest, scale);
  } else {
    scale = mxfp8_scale(largest);
    if (!is_there) return;
    const auto store = [](uint8_t* at, const EightE4m3& eight_codes) {
      *reinterpret_cast<uint2*>(at) = make_uint2(eight_codes.first, eight_codes.second);
    };
    if constexpr (format == BlockFormat::kMxfp8x2) {
      const TwoTerms terms = quantise_two_terms(x, largest);
      store(codes, terms.first);
      store(codes + row_tile_bytes(format) / 2, terms.second);
      second_scale = rest_scale(scale);
    } else {
      store(codes, quantise_mxfp8(x, largest));
    }
  }
  if (eight % 4 != 0) return;
  auto* scales =
      reinterpret_cast<uint8_t*>(to.scales + size_t{1} * row * num_tiles(to)) + place_of_scale(eight);
  scales[0] = scale;
  scales[2] = second_scale;
}

// Quantises and stores eight bfloat16 numbers, two per word, like store_eight() above.
template <BlockFormat format>
__device__ void store_eight(const BlockRows& to, int row, int eight, bool is_there, uint4 words) {
  const uint32_t pairs[]{words.x, words.y, words.z, words.w};
  float x[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(pairs[i] << 16);
    x[2 * i + 1] = __uint_as_float(pairs[i] & 0xFFFF0000u);
  }
  store_eight<format>(to, row, eight, is_there, x);
}
// Quantises and stores eight bfloat16 numbers from shared memory. `from` must be 16-byte aligned.
template <BlockFormat format>
__device__ void store_eight(const BlockRows& to, int row, int eight, bool is_there,
                            const __nv_bfloat16* from) {
  store_eight<format>(to, row, eight, is_there, *reinterpret_cast<const uint4*>(from));
}

}  // namespace nibble::cuda
