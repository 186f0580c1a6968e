// Activations that one kernel writes and another multiplies, in one of three layouts. C++17, for device code.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <type_traits>

#include "backend/cuda/layout/block_format.h"
#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

enum class ActivationLayout {
  kRows,   // row by row, in bfloat16
  kImage,  // an image of bfloat16 (below), read by kernels that multiply by wgmma
  kBlocks  // row by row, in a format of block-scaled products (block_rows.h)
};

struct Activations {
  ActivationLayout layout{ActivationLayout::kRows};
  int image_rows{0};  // rows of the image; 0 in the other layouts
  union {
    __nv_bfloat16* data;  // rows, or an image; null: no activations
    BlockRows blocks;
  };

  constexpr Activations() : data(nullptr) {}
  constexpr Activations(__nv_bfloat16* rows) : data(rows) {}
  explicit constexpr Activations(const BlockRows& rows) : layout(ActivationLayout::kBlocks), blocks(rows) {}
  static constexpr Activations image(__nv_bfloat16* data, int num_rows) {
    Activations image(data);
    image.layout = ActivationLayout::kImage;
    image.image_rows = num_rows;
    return image;
  }
};
static_assert(std::is_trivially_copyable_v<Activations>);

// Images: activations in the swizzled tiles that wgmma reads from shared memory (ptx/wgmma.cuh). The order is
// [tile][row][128 bytes], so one bulk copy loads the same tile of 64 columns of consecutive rows. Bulk copies
// cannot gather or reorder, and storing in this order costs the writer nothing.
//
// The 128 bytes of one row are a cell: its 64 columns in the order of wgmma's lanes, with the 16-byte piece p
// of row r stored at p ^ (r % 8). The writer of a row also zeros the columns that pad its last tile. The
// number of rows is a multiple of 8.

inline constexpr int kCellBytes{2 * kTileCols}, kRowsOfSwizzle{8};

// Returns the place of a column in wgmma's lane order. wgmma's B orders the pairs of columns of a product by
// lane; a lane of mma.sync loads 8 adjacent columns for both products of a group of 32 columns. Column 8 t +
// 4 m + 2 h + c of a group of 32 is at 16 m + 8 h + 2 t + c.
constexpr int lane_order(int col) {
  const int t = col / 8 % 4, m = col / 4 % 2, h = col / 2 % 2;
  return col / 32 * 32 + 16 * m + 8 * h + 2 * t + col % 2;
}

constexpr int whole_eights(int rows) { return (rows + kRowsOfSwizzle - 1) / kRowsOfSwizzle * kRowsOfSwizzle; }
// Returns the byte offset of the cell of `row` in `tile`, in an image of image_rows rows.
constexpr size_t cell_of(int row, int tile, int image_rows) {
  return (size_t{1} * static_cast<size_t>(tile) * static_cast<size_t>(image_rows) +
          static_cast<size_t>(row)) *
         kCellBytes;
}
// Returns the byte offset within its cell at which a column of the row begins.
constexpr int place_in_cell(int row, int col) {
  const int place = 2 * lane_order(col % kTileCols);
  return (place / 16 ^ row % kRowsOfSwizzle) * 16 + place % 16;
}
// Returns the index of the first of a row's 64 elements in `tile`: in an image, or, if image_rows is 0, in
// row-major order without padding. element_of() returns the index of one element.
constexpr size_t first_of_tile(int row, int tile, int num_tiles, int image_rows) {
  return image_rows
             ? cell_of(row, tile, image_rows) / 2
             : (static_cast<size_t>(row) * static_cast<size_t>(num_tiles) + static_cast<size_t>(tile)) *
                   kTileCols;
}
constexpr size_t element_of(int row, int tile, int num_tiles, int image_rows, int col) {
  return first_of_tile(row, tile, num_tiles, image_rows) +
         static_cast<size_t>(image_rows ? place_in_cell(row, col) / 2 : col);
}
// The number of columns is a multiple of 32. If the last tile has 32 columns of padding, these are the pieces
// from kFirstPaddingPiece on of each row's cell.
inline constexpr int kFirstPaddingPiece{4}, kCellPieces{kCellBytes / 16};
constexpr bool has_padding(int cols) { return cols % kTileCols != 0; }
constexpr size_t image_bytes(int image_rows, int cols) {
  return cell_of(0, padded_cols(cols) / kTileCols, image_rows);
}

}  // namespace nibble::cuda
