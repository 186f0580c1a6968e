// Input of the sum over ranks after half a layer (attention or the experts). C++17, for device code.
#pragma once

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

// The part of an all-reduce that one launch performs. Ranks on one GPU run serially, so all ranks launch
// kSend before the first launches kWait.
enum class Turn { kSendAndWait, kSend, kWait };

struct SumNorm {
  const float* weights{nullptr};  // [H]; null: no norm
  float eps{0};
  int image_rows{0};  // rows of the image SumOutputs::normed; 0: no image
};

// One rank's terms for all rows of a step, and the destination: out = x + the parts of all ranks.
struct SumTerms {
  const float* parts;  // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;       // up to kMaxExpertsPerToken
  size_t part_stride, row_stride;
  const float* x;  // [T, H]
  float* out;      // [T, H]
  SumNorm norm;
  // [T, num_parts]: parts of weight 0 count as zeros; their memory is not read. null: all parts count.
  const float* weights{nullptr};
  // [T]: for each row of the step, its row in `parts`; -1: this rank has none. null: identity.
  const int* part_rows{nullptr};
};

struct HalfOutput {
  Operation operation;  // operation that computed the parts
  SumTerms terms;
};

}  // namespace nibble::cuda
