// From rows as checkpoints store them to strips (strips.h), on the device.
#pragma once

#include "backend/cuda/device.h"
#include "backend/cuda/strips.h"

namespace nibble::cuda {

enum class RowOrder {
  kAsStored,
  kGateAndUp,  // stored row 2 i is gate i, 2 i + 1 up i: a strip takes 8 gates, then their ups
};

// `rows` rows from `first_row` on of the matrix that `to` describes; whole strips. Rows and columns of padding become zero.
struct PackBf16Args {
  const uint16_t* from;  // [rows, cols]
  int first_row, rows, cols;
  Strips to;
};
void pack(Stream stream, const PackBf16Args& args);

// `num_matrices` matrices behind each other.
struct PackMxfp4Args {
  const uint8_t* codes;   // [num_matrices, rows, cols / 2], the even column in the low nibble
  const uint8_t* scales;  // [num_matrices, rows, cols / 32]
  int num_matrices, rows, cols;
  RowOrder order;
  Strips to;  // data: of the first of these matrices
  uint8_t* data;
};
void pack(Stream stream, const PackMxfp4Args& args);

// BF16 rows to strips of E4M3, with their row scales, or MXFP4: what model/quantize.h and formats/mxfp4.h make of them.
void quantise(Stream stream, const PackBf16Args& args);

// Words (random(seed, i) & mask) + base: model/synthetic.h.
struct FillArgs {
  uint64_t* to;
  size_t first_word, num_words;
  uint64_t seed, mask, base;
};
void fill(Stream stream, const FillArgs& args);

// float32 from bfloat16.
struct WidenArgs {
  const uint16_t* from;
  float* to;
  int count;
};
void widen(Stream stream, const WidenArgs& args);

}  // namespace nibble::cuda
