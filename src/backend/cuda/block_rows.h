// Activations in the formats of block-scaled products (ptx/block_mma.cuh), as a prompt's kernels hand them to each other: rows of codes,
// and rows of scales for each 32 columns (ptx/quantise_block.h says how they are made). C++17, for device code.
//
// A row is padded with zeros to whole tiles of 64 columns. A tile's codes lie so that a lane t of a quad loads its operands (block_codes.h)
// at once: eight neighbours of the first 32 columns, those of the second 32 behind them, then the same of the next lane. In MXFP8x2 all
// first terms of the tile come before the second ones. A tile has a word of scales: bytes 0 and 1 are those of its blocks of 32 columns, bytes
// 2 and 3 the same of the second terms, or 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/block_format.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/ptx/block_codes.h"

namespace nibble::cuda {

constexpr BlockForm form_of(BlockFormat format) {
  return format == BlockFormat::kMxfp4 ? BlockForm::kMxfp4 : BlockForm::kMxfp8;
}
constexpr int num_terms(BlockFormat format) { return format == BlockFormat::kMxfp8x2 ? 2 : 1; }
// Bytes of eight neighbours, which a lane quantises, and of a row's tile of 64 columns.
constexpr int eight_bytes(BlockFormat format) { return form_of(format) == BlockForm::kMxfp8 ? 8 : 4; }
constexpr int row_tile_bytes(BlockFormat format) { return num_terms(format) * 8 * eight_bytes(format); }

// Calls f(std::integral_constant<BlockFormat, ...>): for kernels that are instantiated for each format.
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

struct BlockRows {
  BlockFormat format{BlockFormat::kMxfp8x2};
  int cols{0};
  uint8_t* codes{nullptr};    // [rows, tiles, row_tile_bytes(format)]; null: there are none
  uint32_t* scales{nullptr};  // [rows, tiles]
};

constexpr int num_tiles(const BlockRows& rows) { return padded_cols(rows.cols) / kTileCols; }
constexpr size_t row_bytes(const BlockRows& rows) {
  return static_cast<size_t>(num_tiles(rows)) * static_cast<size_t>(row_tile_bytes(rows.format));
}
// The places of the first terms of eight neighbours, number `eight` of a row, and of their block's scale, in bytes from the beginning of
// the row. Second terms are half a tile on, their scales two bytes.
constexpr int place_of_codes(BlockFormat format, int eight) {
  return eight / 8 * row_tile_bytes(format) + (eight % 4 * 2 + eight / 4 % 2) * eight_bytes(format);
}
constexpr int place_of_scale(int eight) { return eight / 8 * 4 + eight / 4 % 2; }

}  // namespace nibble::cuda
