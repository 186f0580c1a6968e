// Adds up what lies in one memory in parts: a rank's own terms of a sum over ranks, and those of all ranks where NCCL has brought them.
#pragma once

#include <cstddef>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/step/recorder.h"

namespace nibble::cuda {

// out = x + part 0 + part 1 + ..., in this order, in float32: the bits are those of sum.h.
struct AddArgs {
  const float* parts;  // part p of row r begins at p part_stride + r row_stride
  int num_parts;       // up to kMaxExpertsPerToken, and to kMaxRanks
  size_t part_stride, row_stride;
  const float* x;  // [rows, hidden] or null: there is none
  float* out;      // [rows, hidden], which may be x
  int num_rows, hidden;
  const float* weights{nullptr};  // [rows, num_parts]: parts of weight 0 count as zeros. null: none does
  const int* part_rows{nullptr};  // [rows]: as SumArgs has them (sum.h)
};
void add_parts(const LaunchContext& gpu, const Label& label, const AddArgs& args);

void prepare_add_parts();

}  // namespace nibble::cuda
