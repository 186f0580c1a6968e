// Matrices in strips (isa/kernels.h has the layout), MXFP4 or Q8_0: as many bytes as are stored, in another order. Made once,
// when a model is loaded, from what lies in a file, whose pages are given back as it has been read.
#pragma once

#include <span>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "model/weights.h"

namespace nibble::cpu {

// As many matrices [rows, cols] as there are experts, or one.
struct PackedMatrix {
  Format format{Format::kMxfp4};  // or kQ8_0
  int rows{0}, cols{0};
  Buffer storage;  // all codes, then all scales
  int num_matrices{1};

  const uint8_t* codes(int matrix) const;
  const uint8_t* scales(int matrix) const;
  size_t num_blocks() const;  // of one of them
};

// Whether rows of `matrix` make whole strips of a format that is packed: its own, or that of its blocks.
bool is_packable(const Matrix& matrix, int strip_rows);

// `num_matrices` matrices behind each other, as experts are stored. `is_mapped`: what they are read from lies in a mapped file,
// whose pages are given back. Bytes: read once, written once.
PackedMatrix pack(const Matrix& first, int num_matrices, int strip_rows, bool is_mapped, ThreadPool& pool);

// Matrices of the same columns and format, one below the other.
PackedMatrix pack_below(std::span<const Matrix> parts, int strip_rows, bool is_mapped, ThreadPool& pool);

}  // namespace nibble::cpu
