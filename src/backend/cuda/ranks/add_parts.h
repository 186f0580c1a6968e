// Adds up parts on one GPU: a rank's own parts of an all-reduce, or the terms of all ranks gathered by NCCL.
#pragma once

#include <cstddef>

#include "backend/cuda/chip/recorder.h"
#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

// add_parts() computes out = x + part 0 + part 1 + ... in this order, in float32. The kernels in sum.h
// compute the same bits.
struct AddArgs {
  const float* parts;  // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;       // 1 to 8: a token's experts (kMaxExpertsPerToken) or the ranks (kMaxRanks)
  size_t part_stride, row_stride;
  const float* x;  // [rows, hidden]; null: the sum has only the parts
  float* out;      // [rows, hidden]; may be the same as x
  int num_rows, hidden;
  const float* weights{nullptr};  // [rows, num_parts]: a part of weight 0 counts as 0; null: all parts count
  // [rows]: index of each row in `parts`; -1: the row has no parts. If the pointer is null, a row's index in
  // `parts` is its index in the launch.
  const int* part_rows{nullptr};
};
void add_parts(const LaunchContext& gpu, const Label& label, const AddArgs& args);

void prepare_add_parts();

}  // namespace nibble::cuda
