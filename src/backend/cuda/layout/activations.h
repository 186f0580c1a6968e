// Activations that one kernel writes and another multiplies, in one of three layouts. CUDA code includes this
// header, so it must compile as C++17.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <type_traits>

#include "backend/cuda/layout/block_format.h"
#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

enum class ActivationLayout {
  kRows,   // row by row, in bfloat16
  kImage,  // tile by tile and swizzled (an image, see cell_of()), in bfloat16, for kernels that use wgmma
  kBlocks  // row by row, in a block-scaled format (block_rows.h)
};

struct Activations {
  ActivationLayout layout{ActivationLayout::kRows};
  int image_rows{0};  // number of rows of the image, padding included; 0 in the other layouts
  union {
    __nv_bfloat16* data;  // kRows and kImage: the activations; null if absent
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

// An image holds activations as [tile][row][128 bytes], in the swizzled order that wgmma reads from shared
// memory (ptx/wgmma.cuh). So one bulk copy, which cannot reorder data, loads a tile of 64 columns of
// consecutive rows. Writing in this order takes the writer no extra time. A cell is a row's 128 bytes in a
// tile: 64 columns in the order of lane_order(). Each 16-byte piece p of row r is stored as piece number p ^
// (r % 8). The kernel that writes a row zeros the columns that pad the row's last tile. The number of rows is
// a multiple of 8.

inline constexpr int kCellBytes{2 * kTileCols}, kRowsOfSwizzle{8};

// Returns the place of a column in a cell before swizzling. In a group of 32 columns, column 8 t + 4 m + 2 h
// + c (t = 0..3; m, h, c = 0, 1) has place 16 m + 8 h + 2 t + c. The group takes two wgmma instructions of 16
// places each, m = 0 and m = 1. Instruction m multiplies the column at this place with the weights of the
// same column, which lane t of each quad holds (strips.h). The columns of a pair (c = 0, 1) stay adjacent.
constexpr int lane_order(int col) {
  const int t = col / 8 % 4, m = col / 4 % 2, h = col / 2 % 2;
  return col / 32 * 32 + 16 * m + 8 * h + 2 * t + col % 2;
}

constexpr int whole_eights(int rows) { return (rows + kRowsOfSwizzle - 1) / kRowsOfSwizzle * kRowsOfSwizzle; }
// Returns the byte offset, in an image ([tile][image_rows][128 bytes]), of the cell of `row` and `tile`: the
// 128 bytes that hold the row's 64 columns in the tile.
constexpr size_t cell_of(int row, int tile, int image_rows) {
  return (size_t{1} * static_cast<size_t>(tile) * static_cast<size_t>(image_rows) +
          static_cast<size_t>(row)) *
         kCellBytes;
}
// Returns the byte offset of column `col` in a cell of row `row`, where 16-byte piece p is stored as piece
// p ^ (row % 8).
constexpr int place_in_cell(int row, int col) {
  const int place = 2 * lane_order(col % kTileCols);
  return (place / 16 ^ row % kRowsOfSwizzle) * 16 + place % 16;
}
// Returns the index at which a row's elements of a tile begin: in an image of image_rows rows or, if
// image_rows is 0, in plain rows.
constexpr size_t first_of_tile(int row, int tile, int num_tiles, int image_rows) {
  return image_rows
             ? cell_of(row, tile, image_rows) / 2
             : (static_cast<size_t>(row) * static_cast<size_t>(num_tiles) + static_cast<size_t>(tile)) *
                   kTileCols;
}
// Returns the index of a row's element in column `col` of a tile: in an image of image_rows rows or, if
// image_rows is 0, in plain rows.
constexpr size_t element_of(int row, int tile, int num_tiles, int image_rows, int col) {
  return first_of_tile(row, tile, num_tiles, image_rows) +
         static_cast<size_t>(image_rows ? place_in_cell(row, col) / 2 : col);
}
// If the last tile has only 32 columns, its 16-byte pieces from number kFirstPaddingPiece on are padding. The
// number of a piece is its number before swizzling.
inline constexpr int kFirstPaddingPiece{4}, kCellPieces{kCellBytes / 16};
constexpr bool has_padding(int cols) { return cols % kTileCols != 0; }
constexpr size_t image_bytes(int image_rows, int cols) {
  return cell_of(0, padded_cols(cols) / kTileCols, image_rows);
}

}  // namespace nibble::cuda
