// The GPU as launches see it: the chip, or what options lower it to. C++17, for device code.
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

// True if the chip has wgmma and enough shared memory for its stages. All kernels that can use wgmma then
// must, because activations have only one layout, that of wgmma.
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
