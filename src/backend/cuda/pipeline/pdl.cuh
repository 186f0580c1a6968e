// Programmatic dependent launch: a kernel may start while the previous one still runs. Until
// wait_for_predecessor() returns, a kernel may read only weights and data of earlier steps; afterwards the
// kernel sees all writes of earlier kernels (PTX ISA: griddepcontrol).
//
// A kernel starts only once every CTA of the previous kernel has called let_successor_start() or has ended.
// Normally a CTA makes this call after wait_for_predecessor(). So when a kernel starts, all kernels before
// the previous one have ended, and the started kernel may read their writes. Thus a kernel may read the
// step's input, which embed copies, before its own wait, unless the kernel directly follows embed.
//
// attend_rows() calls let_successor_start_early() instead, before attend_rows() itself has waited. The next
// kernel may still read the step's input before its own wait: qkv() or, with adapters, expand() precedes
// attend_rows(), so all kernels before that one, including embed, have ended when attend_rows() starts.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/chip/check.h"
#include "backend/cuda/chip/profiler_range.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/ptx/launch.cuh"
#include "core/errors/check.h"

namespace nibble::cuda {

// Waits until all earlier kernels have ended. A thread must call this function before it reads what earlier
// kernels wrote. Thread 0 also writes the begin timestamp.
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

// Lets the next kernel start. Call it after wait_for_predecessor(): all earlier kernels have then ended, so
// the next kernel sees their writes even before its own wait.
__device__ inline void let_successor_start() { launch_dependents(); }
// Lets the next kernel start, even if this kernel has not yet returned from wait_for_predecessor(). Until
// its own wait, the next kernel may then read only weights and the step's input.
__device__ inline void let_successor_start_early() { launch_dependents(); }

struct LaunchShape {
  dim3 grid;
  int threads;
  size_t shared_bytes{0};
  unsigned cluster_ctas{1};  // CTAs per cluster, along x; chips without clusters ignore it
  // Whether no other CTA may share the SM. The launch then requests more than half of the chip's shared
  // memory, even if the budget (Target::budget) is smaller. Launches with one CTA per SM need this: if two
  // CTAs fit, some SMs get two and others none, which made experts_down() of one token take a third longer.
  bool is_alone{false};
};

// Launches the kernel with `args` and, as its last argument, the addresses for the launch's timestamps.
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
  const ProfilerRange range(label.name);
  check(cudaLaunchKernelEx(&config, kernel, args..., register_launch(gpu.stream, label)),
        "launching a kernel");
}

// Requests that an SM gives the kernel as much shared memory as possible, and the rest as L1 cache. Every
// kernel of a step requests the same split of shared memory and L1, because only an idle SM can change it.
template <typename... Args>
void prefer_shared_memory(void (*kernel)(Args...)) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "dividing its memory");
}

// Allows a kernel `bytes` of dynamic shared memory. Call it once for each kernel that needs more than 48 KB.
template <typename... Args>
void allow_shared_bytes(void (*kernel)(Args...), size_t bytes) {
  prefer_shared_memory(kernel);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for shared memory");
}
// Allows a kernel the largest amount of dynamic shared memory that the chip has, even if the budget
// (Target::budget) is smaller. Call it for kernels whose launches need different amounts.
template <typename... Args>
void allow_all_shared_bytes(void (*kernel)(Args...)) {
  allow_shared_bytes(kernel, usable_bytes(device_shared_bytes()));
}

}  // namespace nibble::cuda
