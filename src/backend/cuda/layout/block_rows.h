// Activations in the formats of block-scaled products (ptx/block_mma.cuh), as prompt kernels pass them on:
// rows of codes, and of scales for each 32 columns (ptx/quantise_block.h computes both). C++17, for device
// code. Rows are padded with zeros to tiles of 64 columns. The codes of a tile are ordered so that the
// operands of lane t of a quad (block_codes.h) are contiguous: eight columns of the first 32, the eight of
// the second 32, then lane t + 1. In MXFP8x2 all first terms of a tile precede the second terms. A tile has
// one word of scales: bytes 0 and 1 for its blocks of 32 columns, bytes 2 and 3 for their second terms, or 0.
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
// Bytes of eight adjacent columns, which one lane quantises, and of one row's tile of 64 columns.
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
// Byte offsets in a row of the first terms' codes of columns 8 eight .. 8 eight + 7, and of their block's
// scale. Second terms: codes half a tile later, scales two bytes later.
constexpr int place_of_codes(BlockFormat format, int eight) {
  return eight / 8 * row_tile_bytes(format) + (eight % 4 * 2 + eight / 4 % 2) * eight_bytes(format);
}
constexpr int place_of_scale(int eight) { return eight / 8 * 4 + eight / 4 % 2; }

}  // namespace nibble::cuda
