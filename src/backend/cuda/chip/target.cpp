#include "backend/cuda/chip/target.h"

#include "backend/cuda/chip/caps.h"
#include "backend/cuda/cuda_options.h"
#include "core/error.h"

namespace nibble::cuda {

Target target_of(const DeviceCaps& caps, const CudaOptions& options) {
  const std::optional<Budget> largest = largest_budget(caps.shared_bytes);
  if (!largest)
    throw InputError(
        "--backend cuda: {} has {} KB of shared memory per CTA and kernels need at least {}; try --backend "
        "cpu",
        caps.name, caps.shared_bytes >> 10, kilobytes(Budget::k99));
  Target target{caps.family,
                *largest,
                caps.num_multiprocessors,
                caps.has_clusters,
                caps.has_dependent_launch,
                caps.has_block_products,
                caps.has_wgmma};
  if (options.shared_budget) {
    const std::optional<Budget> forced = budget_of(*options.shared_budget);
    if (!forced) throw InputError("--shared-budget {}: it must be 99, 163 or 227", *options.shared_budget);
    if (*forced > *largest)
      throw InputError("--shared-budget {}: {} has {} KB of shared memory per CTA: at most {} is possible",
                       *options.shared_budget, caps.name, caps.shared_bytes >> 10, kilobytes(*largest));
    target.budget = *forced;
  }
  if (options.num_multiprocessors) {
    if (*options.num_multiprocessors < 1 || *options.num_multiprocessors > caps.num_multiprocessors)
      throw InputError("--multiprocessors {}: {} has {}; it must be from 1 to that number",
                       *options.num_multiprocessors, caps.name, caps.num_multiprocessors);
    target.num_multiprocessors = *options.num_multiprocessors;
  }
  return target;
}

}  // namespace nibble::cuda
