// Programmatic dependent launch: a kernel may begin while the one before it still runs. What it may do before wait() is to
// read weights; whatever the kernels before it wrote is there after wait() (PTX ISA: griddepcontrol).
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "backend/cuda/device.h"

namespace nibble::cuda {

__device__ inline void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// After wait(): the next kernel then never sees less than this one did.
__device__ inline void let_successor_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Loads that the compiler does not put off until their values are used, behind much that was asked for later.
__device__ inline float load_now(const float* from) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline uint32_t load_now(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline float2 load_now(const float2* from) {
  float2 value;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "l"(from) : "memory");
  return value;
}

struct LaunchShape {
  dim3 grid;
  int threads;
  size_t shared_bytes{0};
  unsigned cluster_blocks{1};  // along x; ignored where dependent launch is not known either
};

template <typename... Args>
void launch(Stream stream, void (*kernel)(Args...), const LaunchShape& shape, const Args&... args) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {shape.cluster_blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = !has_dependent_launch() ? 0 : shape.cluster_blocks > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, args...), "launching a kernel");
}

// All kernels of a step want the same division of a multiprocessor's memory: to change it, all that runs there has to end first,
// and nothing would start ahead.
template <typename... Args>
void prefer_shared_memory(void (*kernel)(Args...)) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "dividing its memory");
}

// Once for each kernel that takes more than 48 KB of dynamic shared memory.
template <typename... Args>
void allow_shared_bytes(void (*kernel)(Args...), size_t bytes) {
  prefer_shared_memory(kernel);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for shared memory");
}

}  // namespace nibble::cuda
