// Programmatic dependent launch: a kernel may begin while the one before it still runs. Until wait_for_predecessor()
// it may read only weights and what earlier steps left; after that it sees everything that the kernels before it
// wrote (PTX ISA: griddepcontrol). It may read the step's input as well, unless it is the kernel right behind embed, which brings that: a
// kernel begins when the one before it is behind its wait, so when the one before that has ended. Behind attend_rows() alone it begins earlier,
// when qkv() is behind its wait, so when embed has ended too.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

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

// Called after wait_for_predecessor(), so that what the next kernel reads before its own wait is never older than what this one may read.
__device__ inline void let_successor_start() { launch_dependents(); }
// Called before wait_for_predecessor(), where the next kernel reads nothing of this step but its input before its own wait: it may begin while
// the kernel before this one still runs. Behind its wait it sees everything as ever, since this one ends behind its own.
__device__ inline void let_successor_start_early() { launch_dependents(); }

struct LaunchShape {
  dim3 grid;
  int threads;
  size_t shared_bytes{0};
  unsigned cluster_ctas{1};  // along x; ignored where there are no clusters
  // Has each CTA take a multiprocessor to itself, by asking for more than half of the chip's shared memory; a smaller budget, which the
  // kernel's own need is held to, is only pretended. A launch that has one CTA for each multiprocessor needs that: where two fit, the first
  // multiprocessors that are free get two, and others none. experts_down() of one token took a third longer when the compiler had come to
  // need few enough registers.
  bool is_alone{false};
};

// Launches the kernel with `args` and, as its last argument, the places of its timestamps.
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
  config.dynamicSmemBytes = shape.is_alone
                                ? std::max(shape.shared_bytes, alone_bytes(device_caps().shared_bytes))
                                : shape.shared_bytes;
  config.stream = gpu.stream;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  check(cudaLaunchKernelEx(
            &config, kernel, args...,
            gpu.stream.recorder ? gpu.stream.recorder->next(label, gpu.stream.is_draft) : Timestamps{}),
        "launching a kernel");
}

// Gives all kernels of a step the same split of a multiprocessor's memory into L1 and shared memory. A change of the
// split waits until everything on the multiprocessor has ended: no kernel could start ahead of the previous one's
// end.
template <typename... Args>
void prefer_shared_memory(void (*kernel)(Args...)) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "dividing its memory");
}

// Called once for each kernel that takes more than 48 KB of dynamic shared memory.
template <typename... Args>
void allow_shared_bytes(void (*kernel)(Args...), size_t bytes) {
  prefer_shared_memory(kernel);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for shared memory");
}
// The same for one whose launches take different amounts: all that a CTA may have on this chip, whatever the budget is.
template <typename... Args>
void allow_all_shared_bytes(void (*kernel)(Args...)) {
  allow_shared_bytes(kernel, usable_bytes(device_caps().shared_bytes));
}

}  // namespace nibble::cuda
