// Asynchronous copies from global to shared memory.
#pragma once

#include <cstdint>

#include "backend/cuda/ptx/barrier.cuh"

namespace nibble::cuda {

// Copies 16 bytes, bypassing L1.
__device__ inline void copy_16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Copies 4 or 8 bytes, through L1: copies this small have no other form.
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

// end_copies() ends a group of this thread's copies. wait_for_copies() waits until at most the last `later`
// groups are pending.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}

// Whether the architecture compiled for has a copy engine.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kHasBulkCopies{true};
#else
inline constexpr bool kHasBulkCopies{false};
#endif

// L2 policies for bulk copies, as createpolicy encodes them. kEvictFirst: evicts data that is read only once
// before other data.
inline constexpr uint64_t kEvictFirst{0x12F0000000000000}, kEvictNormal{0x1000000000000000};

// Makes the copy engine copy num_bytes, a multiple of 16; the barrier must expect this number. Called by one
// thread. The destination is addressed as this CTA's shared memory: for an address in a cluster, ptxas calls
// a routine on sm_120 and sm_121. Does nothing without a copy engine.
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

// Makes the copy engine prefetch num_bytes, a multiple of 16, to L2.
__device__ inline void bulk_prefetch([[maybe_unused]] const void* from, [[maybe_unused]] int num_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(num_bytes));
#endif
}

}  // namespace nibble::cuda
