// Activations as wgmma reads them from shared memory (ptx/wgmma.cuh), stored so that one bulk copy brings the same tile of 64 columns of
// neighbouring rows: [tile][row][128 bytes]. Bulk copies cannot gather or reorder, and it costs a writer nothing to store so.
//
// The 128 bytes of a row are a cell: its 64 columns are in the order of wgmma's lanes, and piece p of 16 bytes of row r lies at p ^ r % 8.
// Whoever writes a row also writes zeros into the columns that pad its last tile. Rows are counted in eights. C++17, for device code.
#pragma once

#include <cstddef>

#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

inline constexpr int kCellBytes{2 * kTileCols}, kRowsOfSwizzle{8};

// wgmma's B has the pairs of columns of a product in the order of the lanes, where mma.sync's lanes load 8 neighbouring columns for both
// products of a group. Column 8 t + 4 m + 2 h + c of a group of 32 is at 16 m + 8 h + 2 t + c.
constexpr int lane_order(int col) {
  const int t = col / 8 % 4, m = col / 4 % 2, h = col / 2 % 2;
  return col / 32 * 32 + 16 * m + 8 * h + 2 * t + col % 2;
}

constexpr int whole_eights(int rows) { return (rows + kRowsOfSwizzle - 1) / kRowsOfSwizzle * kRowsOfSwizzle; }
// The byte at which a row's cell of a tile begins, in an image of so many rows.
constexpr size_t cell_of(int row, int tile, int image_rows) {
  return (size_t{1} * static_cast<size_t>(tile) * static_cast<size_t>(image_rows) +
          static_cast<size_t>(row)) *
         kCellBytes;
}
// The byte of a cell at which a column of the row begins.
constexpr int place_in_cell(int row, int col) {
  const int place = 2 * lane_order(col % kTileCols);
  return (place / 16 ^ row % kRowsOfSwizzle) * 16 + place % 16;
}
// The element at which a row's 64 columns of a tile begin, in an image or, where image_rows is 0, row by row in tiles without padding; and
// an element of these.
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
// Columns come in 32s. Where 32 pad the last tile, they are these pieces of its cell.
inline constexpr int kFirstPaddingPiece{4}, kCellPieces{kCellBytes / 16};
constexpr bool has_padding(int cols) { return cols % kTileCols != 0; }
constexpr size_t image_bytes(int image_rows, int cols) {
  return cell_of(0, padded_cols(cols) / kTileCols, image_rows);
}

}  // namespace nibble::cuda
