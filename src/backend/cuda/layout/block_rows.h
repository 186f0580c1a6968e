// Activations in the formats of block-scaled products (ptx/block_mma.cuh), as prompt kernels pass them on:
// for each row its codes, and a scale per 32 columns (ptx/quantise_block.h computes both). C++17, for device
// code. Zeros pad rows to tiles of 64 columns. In a tile, the codes that lane t of a quad multiplies
// (block_codes.h) are contiguous: eight columns of the first 32, then eight of the second 32; those of lane t
// + 1 follow. In MXFP8x2 all first terms of a tile precede its second terms. The scales of a row's tile are
// one word: bytes 0 and 1 for the two blocks of 32 columns, bytes 2 and 3 for their second terms, or 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/layout/block_format.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda {

constexpr BlockForm form_of(BlockFormat format) {
  return format == BlockFormat::kMxfp4 ? BlockForm::kMxfp4 : BlockForm::kMxfp8;
}
constexpr int num_terms(BlockFormat format) { return format == BlockFormat::kMxfp8x2 ? 2 : 1; }
// Bytes of the codes of eight adjacent columns, which one lane quantises, and of a row in one tile.
constexpr int eight_bytes(BlockFormat format) { return form_of(format) == BlockForm::kMxfp8 ? 8 : 4; }
constexpr int row_tile_bytes(BlockFormat format) { return num_terms(format) * 8 * eight_bytes(format); }

template <typename F>
void with_block_format(BlockFormat format, const F& f) {
  switch (format) {
    case BlockFormat::kMxfp8x2:
      return f(std::integral_constant<BlockFormat, BlockFormat::kMxfp8x2>());
    case BlockFormat::kMxfp8:
      return f(std::integral_constant<BlockFormat, BlockFormat::kMxfp8>());
    case BlockFormat::kMxfp4:
      return f(std::integral_constant<BlockFormat, BlockFormat::kMxfp4>());
  }
}

constexpr int num_tiles(const BlockRows& rows) { return padded_cols(rows.cols) / kTileCols; }
constexpr size_t row_bytes(const BlockRows& rows) {
  return static_cast<size_t>(num_tiles(rows)) * static_cast<size_t>(row_tile_bytes(rows.format));
}
// Byte offsets in a row of codes, and in a row of scales, for the first terms of columns 8 eight .. 8 eight +
// 7. The codes of their second terms follow half a tile later, the scale of these two bytes later.
constexpr int place_of_codes(BlockFormat format, int eight) {
  return eight / 8 * row_tile_bytes(format) + (eight % 4 * 2 + eight / 4 % 2) * eight_bytes(format);
}
constexpr int place_of_scale(int eight) { return eight / 8 * 4 + eight / 4 % 2; }

}  // namespace nibble::cuda
