// The GPU that the tests pretend to have. With NIBBLE_SHARED_BUDGET and NIBBLE_MULTIPROCESSORS, which nibble
// reads too, a large GPU runs the tests as a small one does.
#pragma once

#include <cstdlib>
#include <string>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/verify/checks.h"

namespace nibble::cuda {

inline CudaOptions pretended() {
  CudaOptions options;
#ifdef NIBBLE_EMULATED_GPU
  options.has_graphs = false;  // the emulated GPU has no graphs
  options.num_multiprocessors = 6;
#endif
  if (const char* text = std::getenv("NIBBLE_SHARED_BUDGET")) options.shared_budget = std::stoi(text);
  if (const char* text = std::getenv("NIBBLE_MULTIPROCESSORS")) options.num_multiprocessors = std::stoi(text);
  return options;
}
inline Target this_target() { return target_of(device_caps(), pretended()); }

// The cases for checks of kernels. Cases left out on the emulated GPU would take most of the time.
#ifdef NIBBLE_EMULATED_GPU
inline constexpr verify::CaseLimits kCaseLimits{.hidden = 544, .num_tokens = 66, .num_positions = 700};
#else
inline constexpr verify::CaseLimits kCaseLimits{};
#endif

}  // namespace nibble::cuda
