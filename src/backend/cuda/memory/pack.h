// Packs rows of a checkpoint into strips (strips.h) on the GPU.
#pragma once

#include "backend/cuda/chip/device.h"
#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

enum class RowOrder {
  kAsStored,
  // Stored row 2 i is gate i, row 2 i + 1 is up i. A strip holds 8 gate rows, then their 8 up rows.
  kGateAndUp,
};

// Packs `rows` rows of `from` into rows first_row, first_row + 1, ... of `to`; first_row must be the first
// row of a strip. Padding becomes zero. If stored_cols exceeds `cols`, packs only `cols` columns, from
// first_col on.
struct PackBf16Args {
  const uint16_t* from;  // [rows, stored_cols]: bits of bfloat16
  int first_row, rows, cols;
  Strips to;
  int* largest_scale{nullptr};  // only for MXFP4: as in PackMxfp4Args
  int stored_cols{cols}, first_col{0};
};
void pack(Stream stream, const PackBf16Args& args);

// Packs `rows` x `cols` elements, from first_row and first_col on, of each of `num_matrices` contiguous
// matrices. E8M0 scales above kLargestScale do not fit in the strips. If some scales are larger, the kernel
// raises *largest_scale to the largest of them, and the caller must reject the matrices.
struct PackMxfp4Args {
  const uint8_t* codes;   // [num_matrices, stored_rows, stored_cols / 2]: E2M1, even column in low nibble
  const uint8_t* scales;  // [num_matrices, stored_rows, stored_cols / 32]: E8M0
  int num_matrices, rows, cols;
  RowOrder order;
  Strips to;      // shape of one packed matrix; to.data is not used
  uint8_t* data;  // [num_matrices, to.matrix_bytes()], output
  int* largest_scale;
  int stored_rows{rows}, stored_cols{cols}, first_row{0}, first_col{0};
};
void pack(Stream stream, const PackMxfp4Args& args);

// Quantises BF16 rows to strips of E4M3 or MXFP4 (model/quantize.h, formats/mxfp4.h). In E4M3, the scale of a
// row is computed from all stored columns, even if only some are packed. So a slice of the columns gets the
// same codes as in the whole matrix.
void quantise(Stream stream, const PackBf16Args& args);
// Packs E4M3 codes. args.from holds their values as BF16 numbers. args.to.row_scales must hold scales of 1
// until the kernel has run, because the kernel divides the numbers by these scales.
void pack_codes(Stream stream, const PackBf16Args& args);

// Fills memory with synthetic weights (checkpoint/synthetic.h): word i is (random(seed, i) & mask) + base.
struct FillArgs {
  uint64_t* to;
  size_t first_word, num_words;
  uint64_t seed, mask, base;
};
void fill(Stream stream, const FillArgs& args);

// Converts bfloat16 to float32.
struct WidenArgs {
  const uint16_t* from;
  float* to;
  int count;
};
void widen(Stream stream, const WidenArgs& args);

}  // namespace nibble::cuda
