// Copies from global to shared memory that nobody waits for when they are issued.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/barrier.cuh"

namespace nibble::cuda {

// Copies 16 bytes, past L1.
__device__ inline void copy_16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Copies 4 or 8 bytes, through L1: there is no other copy of so few.
__device__ inline void copy_4(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_8(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
// Copies num_bytes (16 or 0) and fills up to 16 with zeros.
__device__ inline void copy_16(uint32_t to, const void* from, int num_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(num_bytes)
               : "memory");
}

// Ends a group of this thread's copies; waits until only the last `later` groups may be missing.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}

// Says whether the architecture that is compiled for has a copy engine.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kHasBulkCopies{true};
#else
inline constexpr bool kHasBulkCopies{false};
#endif

// A policy of L2 for bulk copies, as createpolicy makes it: what is read once leaves first.
inline constexpr uint64_t kEvictFirst{0x12F0000000000000}, kEvictNormal{0x1000000000000000};

// One thread has the copy engine copy num_bytes, a multiple of 16, which the barrier was told to expect. The destination is named as this
// CTA's shared memory: for one in a cluster ptxas calls a routine on sm_120 and sm_121. Nothing is in it where there is no copy engine.
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

// Has the copy engine bring num_bytes, a multiple of 16, to L2.
__device__ inline void bulk_prefetch([[maybe_unused]] const void* from, [[maybe_unused]] int num_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(num_bytes));
#endif
}

}  // namespace nibble::cuda
