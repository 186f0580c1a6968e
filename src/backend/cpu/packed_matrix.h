// MXFP4 or Q8_0 matrices repacked into strips (isa/kernels.h): the same number of bytes in another order.
// Packing is done once, at load, and releases pages of a mapped file as soon as they have been read.
#pragma once

#include <span>

#include "core/tensors/buffer.h"
#include "core/threads/thread_pool.h"
#include "model/weights.h"

namespace nibble::cpu {

// A packed matrix [rows, cols], or num_matrices such matrices, one per expert.
struct PackedMatrix {
  Format format{Format::kMxfp4};  // kMxfp4 or kQ8_0
  int rows{0}, cols{0};
  Buffer storage;  // all codes, then all scales
  int num_matrices{1};

  const uint8_t* codes(int matrix) const;
  const uint8_t* scales(int matrix) const;
  size_t num_blocks() const;  // number of blocks per matrix
};

// Returns whether `matrix` can be packed: its format is MXFP4 or Q8_0, and its number of rows is a multiple
// of strip_rows.
bool is_packable(const Matrix& matrix, int strip_rows);

// Packs matrices that are consecutive in memory. `is_mapped`: release their pages of the mapped file.
PackedMatrix pack(const Matrix& first, int num_matrices, int strip_rows, bool is_mapped, ThreadPool& pool);

// Packs matrices of the same format and number of columns into one matrix, stacked by rows.
PackedMatrix pack_below(std::span<const Matrix> parts, int strip_rows, bool is_mapped, ThreadPool& pool);

}  // namespace nibble::cpu
