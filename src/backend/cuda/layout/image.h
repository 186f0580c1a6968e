// Images: activations in the swizzled tiles that wgmma reads from shared memory (ptx/wgmma.cuh), as
// [tile][row][128 bytes]: one bulk copy, which cannot gather or reorder, loads a tile of 64 columns of
// consecutive rows. Storing in this order costs the writer nothing. A cell is the 128 bytes of one row: 64
// columns in the order of wgmma's lanes, the 16-byte piece p of row r at p ^ (r % 8). The writer of a row
// zeros the columns that pad its last tile. The number of rows is a multiple of 8. C++17, for device code.
#pragma once

#include <cstddef>

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

inline constexpr int kCellBytes{2 * kTileCols}, kRowsOfSwizzle{8};

// Place of a column in wgmma's lane order, which orders pairs of columns by lane: column 8 t + 4 m + 2 h + c
// of a group of 32 is at 16 m + 8 h + 2 t + c. A lane of mma.sync loads 8 adjacent columns instead.
constexpr int lane_order(int col) {
  const int t = col / 8 % 4, m = col / 4 % 2, h = col / 2 % 2;
  return col / 32 * 32 + 16 * m + 8 * h + 2 * t + col % 2;
}

constexpr int whole_eights(int rows) { return (rows + kRowsOfSwizzle - 1) / kRowsOfSwizzle * kRowsOfSwizzle; }
constexpr size_t cell_of(int row, int tile, int image_rows) {  // byte offset of the cell
  return (size_t{1} * static_cast<size_t>(tile) * static_cast<size_t>(image_rows) +
          static_cast<size_t>(row)) *
         kCellBytes;
}
constexpr int place_in_cell(int row, int col) {  // byte offset within the cell
  const int place = 2 * lane_order(col % kTileCols);
  return (place / 16 ^ row % kRowsOfSwizzle) * 16 + place % 16;
}
// Index of the first of a row's 64 elements in `tile`: in an image or, if image_rows is 0, in rows.
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
// A last tile with 32 columns of padding has them in the pieces of each cell from kFirstPaddingPiece on.
inline constexpr int kFirstPaddingPiece{4}, kCellPieces{kCellBytes / 16};
constexpr bool has_padding(int cols) { return cols % kTileCols != 0; }
constexpr size_t image_bytes(int image_rows, int cols) {
  return cell_of(0, padded_cols(cols) / kTileCols, image_rows);
}

}  // namespace nibble::cuda
