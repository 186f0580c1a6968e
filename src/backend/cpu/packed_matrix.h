// Matrices repacked into strips (isa/kernels.h has the layout), MXFP4 or Q8_0: the same number of bytes in a
// different order. They are packed once, when a model is loaded; pages of a mapped file are released as soon
// as they have been read.
#pragma once

#include <span>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "model/weights.h"

namespace nibble::cpu {

// One matrix [rows, cols], or one per expert.
struct PackedMatrix {
  Format format{Format::kMxfp4};  // or kQ8_0
  int rows{0}, cols{0};
  Buffer storage;  // all codes, then all scales
  int num_matrices{1};

  const uint8_t* codes(int matrix) const;
  const uint8_t* scales(int matrix) const;
  size_t num_blocks() const;  // blocks of one matrix
};

// Returns whether `matrix` is stored in a format that can be packed and its rows make whole strips.
bool is_packable(const Matrix& matrix, int strip_rows);

// Packs `num_matrices` consecutive matrices, as experts are stored. `is_mapped`: they are in a mapped file,
// whose pages are released. Bytes: read once, written once.
PackedMatrix pack(const Matrix& first, int num_matrices, int strip_rows, bool is_mapped, ThreadPool& pool);

// Packs matrices with the same number of columns and the same format into one, stacked by rows.
PackedMatrix pack_below(std::span<const Matrix> parts, int strip_rows, bool is_mapped, ThreadPool& pool);

}  // namespace nibble::cpu
