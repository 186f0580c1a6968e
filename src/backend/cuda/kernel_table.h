// Which kernel runs what on a GPU: rows of plain data.
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
  Format weights;  // of append and attend: of the KV cache
  Format activations;
  int from_rows, to_rows;  // of the step
  int architecture;        // the compute capability from which on it runs: 80 for sm_80
  const char* kernel;
  const char* reason;  // or the record that says so
  KernelFinding (*check)(const KernelRow& row);
};
std::span<const KernelRow> kernel_rows();

// "qkv/BF16", and "qkv/BF16/9-64" where it does not take every number of rows.
std::string name(const KernelRow& row);

// The check of every row that this GPU can run.
std::vector<KernelCheck> kernel_checks();

// What runs an operation on weights of this format, on this GPU.
std::vector<KernelChoice> choose_kernels(const char* operation, Format weights);

}  // namespace nibble::cuda
