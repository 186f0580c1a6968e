// Input of the sum over ranks after half a layer (attention, or the experts). C++17, for device code.
#pragma once

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

// The part of an all-reduce that one launch performs. Ranks that share a GPU run one after another, so all of
// them launch kSend before any launches kWait.
enum class Turn { kSendAndWait, kSend, kWait };

struct SumNorm {
  const float* weights{nullptr};  // [H]; null: no norm
  float eps{0};
  int image_rows{0};  // rows of SumOutputs::normed if it is an image; 0: plain rows
};

// One rank's terms for all rows of a step, and where the sum goes: out = x + the parts of all ranks.
struct SumTerms {
  const float* parts;  // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;       // up to kMaxExpertsPerToken
  size_t part_stride, row_stride;
  const float* x;  // [T, H]
  float* out;      // [T, H]
  SumNorm norm;
  // [T, num_parts]: a part of weight 0 counts as zeros and is not read. null: all parts count.
  const float* weights{nullptr};
  // [T]: index in `parts` of each row of the step; -1: this rank has none of it. null: the row's own index.
  const int* part_rows{nullptr};
};

struct HalfOutput {
  Operation operation;  // the operation that computed the parts
  SumTerms terms;
};

}  // namespace nibble::cuda
