// Asynchronous copies from global to shared memory, and the barriers that signal their end.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// A barrier (mbarrier) signals that a stage is full or empty. It counts phases: a phase ends once all
// expected threads have arrived and all expected bytes have been copied. A barrier is 8 bytes of shared
// memory, passed by its shared address (shared_address()).

__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Initializes a barrier. Each of its phases expects `arrivals` arrivals.
__device__ inline void init_barrier(uint32_t barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes barriers visible to bulk copies. Call it in the thread that called init_barrier(). Other threads
// of the CTA may use the barriers once they have synchronised with this thread.
__device__ inline void fence_barrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("{.reg .b64 state;\n mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(barrier) : "memory");
}
// Arrives at the barrier, and makes the barrier's current phase also wait for num_bytes of bulk copies. Call
// it only if kHasBulkCopies.
__device__ inline void arrive_and_expect([[maybe_unused]] uint32_t barrier, [[maybe_unused]] int num_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(num_bytes)
               : "memory");
#endif
}
// Makes this thread arrive at the barrier once all its earlier cp.async copies have completed. Returns at
// once.
__device__ inline void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Returns whether the barrier's phase with this parity has ended. Parities alternate; the first phase has
// parity 0.
__device__ inline bool has_ended(uint32_t barrier, uint32_t parity) {
  uint32_t is_done;
  asm volatile(
      "{.reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
      : "=r"(is_done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return is_done;
}
// Waits for the end of the barrier's phase with this parity.
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900  // try_wait blocks for a limited time, so that this loop polls less often
  uint32_t is_done;
  do {
    asm volatile(
        "{.reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
        : "=r"(is_done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!is_done);
#else
  while (!has_ended(barrier, parity)) {
  }
#endif
}

// Synchronises num_threads threads (whole warps) at the hardware barrier with number `barrier`, 1 to 15:
// __syncthreads() uses 0.
__device__ inline void sync_warps(int barrier, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_threads) : "memory");
}

__device__ inline void copy_16(uint32_t to, const void* from) {  // bypasses L1
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// copy_4() and copy_8() go through L1, because cp.async can bypass L1 only with 16 bytes.
__device__ inline void copy_4(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_8(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
// Copies num_bytes (16 or 0), and zeros the rest of the 16 bytes at `to`.
__device__ inline void copy_16(uint32_t to, const void* from, int num_bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(num_bytes)
               : "memory");
}

// end_copies() makes all cp.async copies of this thread since its previous call one group. wait_for_copies()
// waits until at most the last `later` groups are in flight.
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

// L2 cache policies for bulk copies, as createpolicy encodes them. kEvictFirst suits data that is read once.
inline constexpr uint64_t kEvictFirst{0x12F0000000000000}, kEvictNormal{0x1000000000000000};

// Starts a bulk copy of num_bytes (a multiple of 16), which the TMA unit executes. Call it in one thread.
// arrive_and_expect() must announce these bytes to the barrier. Does nothing before sm_90. The destination is
// in shared::cta: for shared::cluster, ptxas would emit a call of a routine on sm_12x.
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

// Starts a prefetch of num_bytes (a multiple of 16) to L2 by the TMA unit. Does nothing before sm_90.
__device__ inline void bulk_prefetch([[maybe_unused]] const void* from, [[maybe_unused]] int num_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(num_bytes));
#endif
}

}  // namespace nibble::cuda
