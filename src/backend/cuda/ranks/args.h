// What the ranks add up after half a layer, as the operations of the half leave it. C++17, for device code.
#pragma once

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

// What a launch of a sum does. Ranks that share a GPU run one after another: all must send before any may
// wait, so sending and waiting are separate launches.
enum class Turn { kSendAndWait, kSend, kWait };

// The norm after a sum.
struct SumNorm {
  const float* weights{nullptr};  // [H], or null: no norm
  float eps{0};
  int image_rows{0};  // of SumOutputs::normed
};

// This rank's terms for all rows of a step, and where the sum goes: out = x + all parts of all ranks.
struct SumTerms {
  const float* parts;  // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;       // up to kMaxExpertsPerToken
  size_t part_stride, row_stride;
  const float* x;  // [T, H]
  float* out;      // [T, H]
  SumNorm norm;
  // [T, num_parts]: parts of weight 0 are skipped, whatever their memory holds. null: none is skipped.
  const float* weights{nullptr};
  // [T]: for each row of the step, the row of `parts` with this rank's parts; -1: this rank has none. null:
  // the same row.
  const int* part_rows{nullptr};
};

struct HalfOutput {
  Operation operation;  // the operation that computed the parts
  SumTerms terms;
};

}  // namespace nibble::cuda
