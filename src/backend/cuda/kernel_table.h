// The kernel table: which kernel runs which operation, format and number of rows on which GPU. Plain data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/kernel_check.h"
#include "model/weights.h"

namespace nibble::cuda {

// The compute capabilities (90 for sm_90) that a kernel is valid for, both ends included. A kernel with instructions of sm_90a or
// sm_120a runs there and nowhere else, not on later GPUs either.
struct Architectures {
  static constexpr int kNewest{1 << 20};
  int first, last;
  constexpr bool include(int compute_capability) const {
    return first <= compute_capability && compute_capability <= last;
  }
};

struct KernelRow {
  Operation operation;
  Format weights;  // for append and attend: format of the KV cache
  Format activations;
  int from_rows, to_rows;  // rows of the step that it takes
  Architectures architectures;
  const char* kernel;
  const char* reason;  // why this kernel, or the record that shows it
  KernelFinding (*check)(const KernelRow& row);
};
std::span<const KernelRow> kernel_rows();

// "qkv/BF16", and "qkv/BF16/9-64" where it does not take every number of rows.
std::string name(const KernelRow& row);

// The rows that a GPU of this compute capability can run.
std::vector<const KernelRow*> rows_valid_for(int compute_capability, std::span<const KernelRow> rows);

// The checks of all rows that this GPU can run.
std::vector<KernelCheck> kernel_checks();

// The rows that run an operation on weights of this format: on this GPU, and on any, which needs none.
std::vector<KernelChoice> choose_kernels(Operation operation, Format weights);
std::vector<KernelChoice> choose_kernels(Operation operation, Format weights, int compute_capability,
                                         std::span<const KernelRow> rows);

}  // namespace nibble::cuda
