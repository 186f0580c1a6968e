// The kernel table: which kernel runs which operation, format and number of rows on which GPU. Plain data.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/kernel_check.h"
#include "model/weights.h"

namespace nibble::cuda {

struct KernelRow {
  const char* operation;
  Format weights;  // for append and attend: format of the KV cache
  Format activations;
  int from_rows, to_rows;  // rows of the step that it takes
  int architecture;        // the compute capability from which on it runs: 80 for sm_80
  const char* kernel;
  const char* reason;  // why this kernel, or the record that shows it
  KernelFinding (*check)(const KernelRow& row);
};
std::span<const KernelRow> kernel_rows();

// "qkv/BF16", and "qkv/BF16/9-64" where it does not take every number of rows.
std::string name(const KernelRow& row);

// The checks of all rows that this GPU can run.
std::vector<KernelCheck> kernel_checks();

// The rows that run an operation on weights of this format on this GPU.
std::vector<KernelChoice> choose_kernels(const char* operation, Format weights);

}  // namespace nibble::cuda
