// The memory in which kernels store normalised rows: plain rows, or an image of swizzled tiles
// (layout/activations.h).
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/layout/activations.h"

namespace nibble::cuda {

struct NormedRows {
  __nv_bfloat16* data;
  int hidden, image_rows;  // image_rows: number of rows of the image; 0 if `data` holds plain rows

  __device__ void store(int row, int i, uint2 four) const {  // stores elements 4 i to 4 i + 3
    if (image_rows == 0) {
      reinterpret_cast<uint2*>(data)[size_t{1} * row * (hidden / 4) + i] = four;
      return;
    }
    uint8_t* const cell = bytes() + cell_of(row, 4 * i / kTileCols, image_rows);
    *reinterpret_cast<uint32_t*>(cell + place_in_cell(row, 4 * i)) = four.x;
    *reinterpret_cast<uint32_t*>(cell + place_in_cell(row, 4 * i + 2)) = four.y;
  }
  // Zeros the padding of the row's last tile in an image. All threads of the CTA must call it.
  __device__ void pad(int row) const {
    const int piece = kFirstPaddingPiece + static_cast<int>(threadIdx.x);
    if (image_rows && has_padding(hidden) && piece < kCellPieces)
      *reinterpret_cast<uint4*>(bytes() + cell_of(row, hidden / kTileCols, image_rows) +
                                (piece ^ row % kRowsOfSwizzle) * 16) = {};
  }

 private:
  __device__ uint8_t* bytes() const { return reinterpret_cast<uint8_t*>(data); }
};

}  // namespace nibble::cuda
