// Activations as prompt kernels pass them to block-scaled products (ptx/block_mma.cuh): codes, and one scale
// per 32 columns, both computed by ptx/quantise_block.h. MXFP8 and MXFP4 have one code per value. MXFP8x2
// stores a value as the sum of two terms, each with a code and a scale. CUDA code includes this header, so it
// must compile as C++17.
//
// Rows are zero-padded to tiles of 64 columns. A tile's codes are in the order of the lanes t = 0..3 that
// multiply them (block_codes.h). In MXFP8x2 the first terms of all 64 columns precede the second terms:
//
//   columns  0-7, 32-39 (t = 0) | 8-15, 40-47 (t = 1) | 16-23, 48-55 (t = 2) | 24-31, 56-63 (t = 3)
//
// A tile's scales are one word. Bytes 0 and 1 are for the first terms of columns 0-31 and 32-63; bytes 2 and
// 3 are for the second terms, or 0.
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
// eight_bytes() returns the bytes of the codes of 8 adjacent columns, in one of the format's terms.
// row_tile_bytes() returns the bytes of a row's codes in one tile of 64 columns, in all terms.
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
// Returns the bytes of the codes and scales of `num_rows` rows.
constexpr size_t bytes_of_rows(const BlockRows& rows, int num_rows) {
  return static_cast<size_t>(num_rows) *
         (row_bytes(rows) + sizeof *rows.scales * static_cast<size_t>(num_tiles(rows)));
}
// `eight` stands for columns 8 * eight to 8 * eight + 7 of a row. place_of_codes() returns the byte offset of
// their codes in the row's codes; place_of_scale() returns the byte offset of their scale in the row's
// scales. In MXFP8x2, these are the codes and the scale of the first terms. The codes of the second terms are
// half a tile after them, and the second terms' scale is two bytes after the first terms' scale.
constexpr int place_of_codes(BlockFormat format, int eight) {
  return eight / 8 * row_tile_bytes(format) + (eight % 4 * 2 + eight / 4 % 2) * eight_bytes(format);
}
constexpr int place_of_scale(int eight) { return eight / 8 * 4 + eight / 4 % 2; }

}  // namespace nibble::cuda
