// The models and numbers of tokens that kernels are checked with.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/kernel_table.h"
#include "backend/cuda/verify/comparison.h"
#include "backend/cuda/verify/values.h"

namespace nibble::cuda::verify {

struct Shape {
  int hidden, num_heads, num_kv_heads, num_experts, experts_per_token, intermediate, vocab;
  std::vector<int> tokens;
};

struct Case {
  Shape shape;
  int num_tokens;
  Values values;
  uint64_t seed;

  std::string text() const;
};

// How one case of a row is checked, in one format of weights.
using CheckCase = void (*)(Comparison& comparison, Stream stream, Format weights, const Case& c);

// Every shape with its numbers of tokens, and one with all kinds of values; of the tokens those that the row takes, and those at
// its borders.
KernelFinding check_cases(const KernelRow& row, CheckCase check_case);

}  // namespace nibble::cuda::verify
