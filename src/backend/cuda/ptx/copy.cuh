// Asynchronous copies from global to shared memory.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/barrier.cuh"

namespace nibble::cuda {

__device__ inline void copy_16(uint32_t to, const void* from) {  // bypasses L1
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// copy_4() and copy_8() go through L1: copies this small have no other form.
__device__ inline void copy_4(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_8(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
// Copies num_bytes (16 or 0) and fills the rest of the 16 bytes at `to` with zeros.
__device__ inline void copy_16(uint32_t to, const void* from, int num_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(num_bytes)
               : "memory");
}

// end_copies() ends a group of this thread's copies; at most `later` groups are pending after the wait.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}

#if __CUDA_ARCH__ >= 900
inline constexpr bool kHasBulkCopies{true};
#else
inline constexpr bool kHasBulkCopies{false};
#endif

// L2 policies for bulk copies, as createpolicy encodes them. kEvictFirst: for data that is read only once.
inline constexpr uint64_t kEvictFirst{0x12F0000000000000}, kEvictNormal{0x1000000000000000};

// Has the copy engine copy num_bytes, a multiple of 16 that the barrier must expect; no-op without an engine.
// Called by one thread. With a cluster address as destination ptxas calls a routine on sm_120, sm_121.
__device__ inline void bulk_copy([[maybe_unused]] uint32_t to, [[maybe_unused]] const void* from,
                                 [[maybe_unused]] int num_bytes, [[maybe_unused]] uint32_t barrier,
                                 [[maybe_unused]] uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
      "%4;" ::"r"(to),
      "l"(from), "r"(num_bytes), "r"(barrier), "l"(policy)
      : "memory");
#endif
}

// Has the copy engine prefetch num_bytes, a multiple of 16, to L2.
__device__ inline void bulk_prefetch([[maybe_unused]] const void* from, [[maybe_unused]] int num_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(num_bytes));
#endif
}

}  // namespace nibble::cuda
