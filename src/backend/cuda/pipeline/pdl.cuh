// Programmatic dependent launch: a kernel may start while the previous one still runs. Until
// wait_for_predecessor() it may read only weights and data of earlier steps; after that it sees everything
// that earlier kernels wrote (PTX ISA: griddepcontrol).
//
// Before its wait it may also read the step's input, unless it directly follows embed, which copies that
// input: a kernel starts once the previous kernel has passed its wait, that is, after the kernel before the
// previous one has ended. Only the kernel after attend_rows() starts earlier, once qkv() has passed its wait;
// by then embed has ended too.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/ptx/launch.cuh"
#include "core/check.h"

namespace nibble::cuda {

__device__ inline void wait_for_predecessor(const Timestamps& timestamps) {
  wait_for_dependencies();
  if (timestamps.begin && threadIdx.x == 0) atomicMin(timestamps.begin, now_ns());
}

// Writes the launch's end timestamp when the kernel returns, if the launch is recorded.
class EndTimestamp {
 public:
  __device__ explicit EndTimestamp(const Timestamps& timestamps) : timestamps_(timestamps) {}
  EndTimestamp(const EndTimestamp&) = delete;
  EndTimestamp& operator=(const EndTimestamp&) = delete;
  __device__ ~EndTimestamp() {
    if (timestamps_.end && threadIdx.x == 0) atomicMax(timestamps_.end, now_ns());
  }

 private:
  const Timestamps& timestamps_;
};

// Allows the next kernel to start. Called after wait_for_predecessor(), so that data that the next kernel
// reads before its own wait is never older than data that this kernel may read.
__device__ inline void let_successor_start() { launch_dependents(); }
// Allows the next kernel to start, even while the kernel before this one still runs. Called before
// wait_for_predecessor(), and only if the next kernel reads just weights and the step's input before its own
// wait. After its wait it sees all earlier writes as usual, because this kernel ends after its own wait.
__device__ inline void let_successor_start_early() { launch_dependents(); }

struct LaunchShape {
  dim3 grid;
  int threads;
  size_t shared_bytes{0};
  unsigned cluster_ctas{1};  // along x; ignored on chips without clusters
  // Gives each CTA an SM to itself, by requesting more than half of the chip's shared memory (even under a
  // smaller budget, which only limits what the kernel itself uses). A launch with one CTA per SM needs this:
  // if two CTAs fit on an SM, the first free SMs get two, and other SMs none. experts_down() of one token
  // took a third longer after a change of the compiled code left enough registers for two CTAs.
  bool is_alone{false};
};

// Launches the kernel with `args` and, as its last argument, the addresses of its timestamps.
template <typename... Params, typename... Args>
void launch(const LaunchContext& gpu, const Label& label, void (*kernel)(Params...), const LaunchShape& shape,
            const Args&... args) {
  NIBBLE_CHECK(shape.shared_bytes <= usable_bytes(gpu.target.budget),
               "{} takes {} bytes of a budget of {} KB", label.name, shape.shared_bytes,
               kilobytes(gpu.target.budget));
  cudaLaunchAttribute attributes[2]{};
  unsigned num_attributes = 0;
  if (gpu.target.has_dependent_launch) {
    cudaLaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (gpu.target.has_clusters && shape.cluster_ctas > 1) {
    cudaLaunchAttribute& attribute = attributes[num_attributes++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {shape.cluster_ctas, 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes =
      shape.is_alone ? std::max(shape.shared_bytes, alone_bytes(device_shared_bytes())) : shape.shared_bytes;
  config.stream = gpu.stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  check(cudaLaunchKernelEx(&config, kernel, args..., timestamps_of_next(gpu.stream, label)),
        "launching a kernel");
}

// Gives all kernels of a step the same split of an SM's memory into L1 and shared memory. Changing the split
// waits until everything on the SM has ended, so no kernel could start before the previous one ends.
template <typename... Args>
void prefer_shared_memory(void (*kernel)(Args...)) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "dividing its memory");
}

// Called once for each kernel that uses more than 48 KB of dynamic shared memory.
template <typename... Args>
void allow_shared_bytes(void (*kernel)(Args...), size_t bytes) {
  prefer_shared_memory(kernel);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for shared memory");
}
// Like allow_shared_bytes(), for a kernel whose launches use different amounts: allows the maximum of a CTA
// on this chip, whatever the budget.
template <typename... Args>
void allow_all_shared_bytes(void (*kernel)(Args...)) {
  allow_shared_bytes(kernel, usable_bytes(device_shared_bytes()));
}

}  // namespace nibble::cuda
