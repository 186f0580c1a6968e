// Packs rows of a checkpoint into strips (strips.h), on the device.
#pragma once

#include "backend/cuda/chip/device.h"
#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

enum class RowOrder {
  kAsStored,
  // Stored row 2 i is gate i, row 2 i + 1 is up i. A strip holds 8 gate rows, then their 8 up rows.
  kGateAndUp,
};

// Packs `rows` rows into the matrix `to`, from row first_row on, which must be the first of a strip. Padding
// becomes zero. If stored_cols exceeds `cols`, packs only `cols` columns, from first_col on.
struct PackBf16Args {
  const uint16_t* from;  // [rows, stored_cols]: bits of bfloat16
  int first_row, rows, cols;
  Strips to;
  int* largest_scale{nullptr};  // used for MXFP4; see PackMxfp4Args
  int stored_cols{cols}, first_col{0};
};
void pack(Stream stream, const PackBf16Args& args);

// Packs `num_matrices` contiguous matrices, or only `rows` x `cols` of each, from first_row and first_col on.
// Raises *largest_scale to the largest E8M0 scale; the caller must reject results above kLargestScale.
struct PackMxfp4Args {
  const uint8_t* codes;   // [num_matrices, stored_rows, stored_cols / 2]: E2M1, even column in low nibble
  const uint8_t* scales;  // [num_matrices, stored_rows, stored_cols / 32]: E8M0
  int num_matrices, rows, cols;
  RowOrder order;
  Strips to;      // shape of a packed matrix; to.data is not used
  uint8_t* data;  // [num_matrices, to.matrix_bytes()], output
  int* largest_scale;
  int stored_rows{rows}, stored_cols{cols}, first_row{0}, first_col{0};
};
void pack(Stream stream, const PackMxfp4Args& args);

// Quantises BF16 rows to strips of E4M3 with row scales, or of MXFP4 (model/quantize.h, formats/mxfp4.h). A
// row's scale is that of all its stored columns, so a share of a split matrix has the bits of the whole one.
void quantise(Stream stream, const PackBf16Args& args);
// Packs E4M3 codes, given as BF16 numbers of the same values. Expects scales of 1 in args.to.row_scales.
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
