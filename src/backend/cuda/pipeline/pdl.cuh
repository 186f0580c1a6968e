// Programmatic dependent launch: a kernel may start while the previous one still runs. Until
// wait_for_predecessor() it may read only weights and data of earlier steps; then it sees all writes of
// earlier kernels (PTX ISA: griddepcontrol). It may also read the step's input early, unless it follows
// embed, which copies that input: a kernel starts once the previous one has passed its wait, so the one
// before that has ended. Only the kernel after attend_rows() starts earlier, once qkv() has passed its wait;
// by then embed has ended too.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/ptx/dependent_launch.cuh"
#include "backend/cuda/ptx/registers.cuh"
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

// Lets the next kernel start. Called after wait_for_predecessor(), so that data which the next kernel reads
// before its own wait is never older than this kernel may read.
__device__ inline void let_successor_start() { launch_dependents(); }
// Lets the next kernel start even before wait_for_predecessor(): only if it reads just weights and the step's
// input before its own wait. After that it sees all earlier writes, as this kernel ends after its wait.
__device__ inline void let_successor_start_early() { launch_dependents(); }

struct LaunchShape {
  dim3 grid;
  int threads;
  size_t shared_bytes{0};
  unsigned cluster_ctas{1};  // along x; ignored on chips without clusters
  // Gives each CTA an SM to itself, by requesting more than half of the chip's shared memory, whatever the
  // budget. A launch with one CTA per SM needs this: where two fit, some SMs get two and others none, and
  // experts_down() of one token took a third longer.
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

// Gives all kernels of a step the same split of L1 and shared memory: an SM must be idle to change it.
template <typename... Args>
void prefer_shared_memory(void (*kernel)(Args...)) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "dividing its memory");
}

// Allows `bytes` of dynamic shared memory; called once for each kernel that uses more than 48 KB.
template <typename... Args>
void allow_shared_bytes(void (*kernel)(Args...), size_t bytes) {
  prefer_shared_memory(kernel);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for shared memory");
}
// For kernels whose launches differ in shared memory: allows the chip's maximum per CTA, whatever the budget.
template <typename... Args>
void allow_all_shared_bytes(void (*kernel)(Args...)) {
  allow_shared_bytes(kernel, usable_bytes(device_shared_bytes()));
}

}  // namespace nibble::cuda
