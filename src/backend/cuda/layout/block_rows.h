// Activations in the formats of block-scaled products (ptx/block_mma.cuh), as one prompt kernel passes them
// to the next: rows of codes, and rows of scales for each 32 columns (ptx/quantise_block.h computes both).
// C++17, for device code.
//
// A row is padded with zeros to whole tiles of 64 columns. A tile's codes are ordered so that lane t of a
// quad loads its operands (block_codes.h) at once: eight adjacent columns of the first 32, the corresponding
// eight of the second 32, then the same for lane t + 1. In MXFP8x2 all first terms of the tile precede all
// second terms. A tile has one word of scales: bytes 0 and 1 belong to its blocks of 32 columns, bytes 2 and
// 3 to the second terms of these blocks, or are 0.
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

// Calls f(std::integral_constant<BlockFormat, ...>), for kernels that are instantiated per format.
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
// Byte offsets from the beginning of a row, for its run number `eight` of eight columns: of the codes of the
// first terms, and of the scale of their block. Codes of second terms are half a tile after those of first
// terms, their scales two bytes after.
constexpr int place_of_codes(BlockFormat format, int eight) {
  return eight / 8 * row_tile_bytes(format) + (eight % 4 * 2 + eight / 4 % 2) * eight_bytes(format);
}
constexpr int place_of_scale(int eight) { return eight / 8 * 4 + eight / 4 % 2; }

}  // namespace nibble::cuda
