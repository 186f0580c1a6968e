// mbarrier: copies and warps signal through it that a stage is full or empty. A phase ends when the expected
// arrivals and bytes are reached. A barrier is 8 bytes of shared memory, named by its shared address.
#pragma once

#include <cstdint>

namespace nibble::cuda {

__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ inline void init_barrier(uint32_t barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine. The threads of the CTA must synchronise as well.
__device__ inline void fence_barrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("{.reg .b64 state;\n mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(barrier) : "memory");
}
// Arrives, and makes the phase wait for num_bytes of bulk copies too. Only if kHasBulkCopies (copy.cuh).
__device__ inline void arrive_and_expect([[maybe_unused]] uint32_t barrier, [[maybe_unused]] int num_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(num_bytes)
               : "memory");
#endif
}
// Arrives when all cp.async copies issued by this thread have completed.
__device__ inline void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ inline bool has_ended(uint32_t barrier, uint32_t parity) {
  uint32_t is_done;
#if __CUDA_ARCH__ >= 900  // try_wait blocks for a limited time
  asm volatile(
      "{.reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
      : "=r"(is_done)
      : "r"(barrier), "r"(parity)
      : "memory");
#else
  asm volatile(
      "{.reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
      : "=r"(is_done)
      : "r"(barrier), "r"(parity)
      : "memory");
#endif
  return is_done;
}
// Waits for the end of the phase with this parity. The first phase has parity 0.
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
  while (!has_ended(barrier, parity)) {
  }
}

// Synchronises num_threads threads (whole warps) that name the same barrier, 1 to 15; __syncthreads() uses 0.
__device__ inline void sync_warps(int barrier, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_threads) : "memory");
}

}  // namespace nibble::cuda
