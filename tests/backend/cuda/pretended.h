// What the tests on a GPU take it for. NIBBLE_SHARED_BUDGET and NIBBLE_MULTIPROCESSORS, which the program reads too, let a large GPU
// run the tests as a small one does.
#pragma once

#include <cstdlib>
#include <string>

#include "backend/cuda/chip/target.h"

namespace nibble::cuda {

inline CudaOptions pretended() {
  CudaOptions options;
  if (const char* text = std::getenv("NIBBLE_SHARED_BUDGET")) options.shared_budget = std::stoi(text);
  if (const char* text = std::getenv("NIBBLE_MULTIPROCESSORS")) options.num_multiprocessors = std::stoi(text);
  return options;
}
inline Target this_target() { return target_of(device_caps(), pretended()); }

}  // namespace nibble::cuda
