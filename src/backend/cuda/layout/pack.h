// Packs rows as checkpoints store them into strips (strips.h), on the device.
#pragma once

#include "backend/cuda/chip/device.h"
#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

enum class RowOrder {
  kAsStored,
  kGateAndUp,  // stored row 2 i is gate i, 2 i + 1 is up i; a strip takes 8 gates, then their ups
};

// Packs `rows` rows as rows first_row .. of the matrix that `to` describes; whole strips. Rows and columns of padding
// become zero. Of each row that is stored only `cols` columns may be taken, from first_col on.
struct PackBf16Args {
  const uint16_t* from;  // [rows, stored_cols]
  int first_row, rows, cols;
  Strips to;
  int* largest_scale{nullptr};  // of MXFP4: see below
  int stored_cols{cols}, first_col{0};
};
void pack(Stream stream, const PackBf16Args& args);

// Packs `num_matrices` contiguous matrices, or `rows` x `cols` of each, from first_row and first_col on. *largest_scale becomes the largest E8M0 scale if that is larger: beyond kLargestScale the
// result is wrong, and the caller refuses it.
struct PackMxfp4Args {
  const uint8_t* codes;   // [num_matrices, stored_rows, stored_cols / 2], the even column in the low nibble
  const uint8_t* scales;  // [num_matrices, stored_rows, stored_cols / 32]
  int num_matrices, rows, cols;
  RowOrder order;
  Strips to;      // describes each matrix; its data is not used
  uint8_t* data;  // where the first of these matrices goes
  int* largest_scale;
  int stored_rows{rows}, stored_cols{cols}, first_row{0}, first_col{0};
};
void pack(Stream stream, const PackMxfp4Args& args);

// Quantises BF16 rows to strips of E4M3 with row scales, or of MXFP4, as model/quantize.h and formats/mxfp4.h define
// it.
// A row's scale is that of all its stored columns, so that the shares of a matrix are those of the quantised whole.
void quantise(Stream stream, const PackBf16Args& args);

// Generates synthetic weights (model/checkpoint/synthetic.h): words (random(seed, i) & mask) + base.
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
