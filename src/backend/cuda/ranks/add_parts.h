// Adds up parts in one GPU: a rank's own terms of an all-reduce, or all ranks' terms gathered by NCCL.
#pragma once

#include <cstddef>

#include "backend/cuda/chip/recorder.h"
#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

// out = x + part 0 + part 1 + ..., in this order, in float32: the same bits as the sums of sum.h.
struct AddArgs {
  const float* parts;  // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;       // up to kMaxExpertsPerToken, and to kMaxRanks
  size_t part_stride, row_stride;
  const float* x;  // [rows, hidden], or null if absent
  float* out;      // [rows, hidden]; may be x
  int num_rows, hidden;
  const float* weights{nullptr};  // [rows, num_parts]: parts of weight 0 count as zeros; null: all count
  // [rows]: each row's row in `parts`, -1: its parts are zeros; null: identity
  const int* part_rows{nullptr};
};
void add_parts(const LaunchContext& gpu, const Label& label, const AddArgs& args);

void prepare_add_parts();

}  // namespace nibble::cuda
