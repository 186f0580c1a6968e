// What a launch knows about the GPU: the chip's facts, or what the options pretend. C++17, for device code.
#pragma once

#include "backend/cuda/chip/budget.h"
#include "backend/cuda/chip/family.h"
#include "backend/cuda/chip/stream.h"
#include "backend/cuda/cuda_options.h"

namespace nibble::cuda {

struct DeviceCaps;

struct Target {
  Family family{Family::kSm80};
  Budget budget{Budget::k99};
  int num_multiprocessors{0};
  bool has_clusters{false}, has_dependent_launch{false}, has_block_products{false}, has_wgmma{false};
};

// True if the chip has wgmma and memory for its stages: then every kernel that can use wgmma must, because
// activations have one layout only.
constexpr bool multiplies_by_wgmma(const Target& target) {
  return target.has_wgmma && target.budget == Budget::k227;
}

// Throws InputError if the chip supports no budget, or less than the options request.
Target target_of(const DeviceCaps& caps, const CudaOptions& options);

struct LaunchContext {  // the first argument of every launch function
  Stream stream;
  Target target;
};

}  // namespace nibble::cuda
