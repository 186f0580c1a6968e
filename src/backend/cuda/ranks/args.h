// Input of the sum over ranks after half a layer (attention, or the experts). CUDA code includes this header,
// so it must compile as C++17.
#pragma once

#include <cstddef>

#include "model/operation.h"

namespace nibble::cuda {

// Whether a launch sends this rank's data to the other ranks, waits for the data of the other ranks, or both.
// Launches of ranks that share a GPU run one after another, so a launch must not wait for data that a later
// launch sends. Such ranks all launch kSend before any of them launches kWait.
enum class Turn { kSendAndWait, kSend, kWait };

struct SumNorm {
  const float* weights{nullptr};  // [H]: weights of the norm; null: no norm
  float eps{0};
  // Number of rows of SumOutputs::normed if that is an image (layout/activations.h); 0 for plain rows.
  int image_rows{0};
};

// One rank's terms for all rows of a step, and the place of the sum: out = x + the parts of all ranks.
struct SumTerms {
  const float* parts;  // part p of row r starts at p * part_stride + r * row_stride
  int num_parts;       // at most kMaxExpertsPerToken
  size_t part_stride, row_stride;
  const float* x;  // [T, H]: the residual stream, to which the parts are added
  float* out;      // [T, H], output
  SumNorm norm;
  // [T, num_parts]: a part of weight 0 is not read and counts as zeros. null: all parts count.
  const float* weights{nullptr};
  // [T]: index of each row in `parts`; -1: this rank has no part of the row. If the pointer is null, a row's
  // index in `parts` is its index in the step.
  const int* part_rows{nullptr};
};

struct HalfOutput {
  Operation operation;  // the operation that computed the ranks' parts (SumTerms)
  SumTerms terms;
};

}  // namespace nibble::cuda
