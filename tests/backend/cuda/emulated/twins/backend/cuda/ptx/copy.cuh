// C++ version of ptx/copy.cuh, for a chip with bulk copies. An invalid bulk copy ends the test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>

#include "backend/cuda/ptx/load.cuh"

namespace nibble::cuda {

// A barrier's phase ends with the last arrival. Copies are immediate, so by then all bytes for which the
// barrier waits have arrived.
struct BarrierTwin {
  uint16_t num_expected, num_missing;
  uint32_t phase;
};
inline BarrierTwin& barrier_at(uint32_t barrier) {
  return *reinterpret_cast<BarrierTwin*>(emulated::shared_memory.bytes + barrier);
}
inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(static_cast<const uint8_t*>(shared) - emulated::shared_memory.bytes);
}
inline void init_barrier(uint32_t barrier, unsigned arrivals) {
  const auto count = static_cast<uint16_t>(arrivals);
  barrier_at(barrier) = {count, count, 0};
}
inline void fence_barrier_init() {}
inline void arrive(uint32_t barrier) {
  BarrierTwin& twin = barrier_at(barrier);
  if (--twin.num_missing > 0) return;
  twin.num_missing = twin.num_expected;
  ++twin.phase;
}
inline void arrive_after_copies(uint32_t barrier) { arrive(barrier); }
inline bool has_ended(uint32_t barrier, uint32_t parity) { return barrier_at(barrier).phase % 2 != parity; }
inline void wait(uint32_t barrier, uint32_t parity) {
  while (!has_ended(barrier, parity)) emulated::yield();
}
inline void sync_warps(int barrier, int num_threads) { emulated::sync_some(barrier, num_threads); }

inline void copy_bytes(uint32_t to, const void* from, int num_bytes) {
  if (to + static_cast<uint32_t>(num_bytes) > emulated::shared_memory.num_bytes) {
    std::fprintf(stderr, "a copy of %d bytes ends behind shared memory\n", num_bytes);
    std::abort();
  }
  std::memcpy(emulated::shared_memory.bytes + to, from, static_cast<size_t>(num_bytes));
}
inline void copy_16(uint32_t to, const void* from) { copy_bytes(to, from, 16); }
inline void copy_4(uint32_t to, const void* from) { copy_bytes(to, from, 4); }
inline void copy_8(uint32_t to, const void* from) { copy_bytes(to, from, 8); }
inline void copy_16(uint32_t to, const void* from, int num_bytes) {
  std::memset(emulated::shared_memory.bytes + to, 0, 16);
  copy_bytes(to, from, num_bytes);
}
inline void end_copies() {}
template <int later>
void wait_for_copies() {}

inline constexpr bool kHasBulkCopies{true};
inline constexpr uint64_t kEvictFirst{1}, kEvictNormal{0};

// For each barrier: the bytes that its phase still expects, and the arrivals that announced them. These
// arrivals count when the bytes have arrived.
struct Expected {
  int num_bytes, num_arrivals;
};
inline thread_local std::map<uint32_t, Expected> expected_of;
inline void arrive_and_expect(uint32_t barrier, int num_bytes) {
  Expected& expected = expected_of[barrier];
  expected.num_bytes += num_bytes;
  ++expected.num_arrivals;
}
inline void bulk_copy(uint32_t to, const void* from, int num_bytes, uint32_t barrier, uint64_t) {
  Expected& expected = expected_of[barrier];
  if (num_bytes % 16 || to % 16 || reinterpret_cast<uintptr_t>(from) % 16 || num_bytes > expected.num_bytes) {
    std::fprintf(stderr, "a bulk copy of %d bytes, of %d expected, from %p to %u\n", num_bytes,
                 expected.num_bytes, from, to);
    std::abort();
  }
  copy_bytes(to, from, num_bytes);
  if ((expected.num_bytes -= num_bytes) > 0) return;
  for (; expected.num_arrivals > 0; --expected.num_arrivals) arrive(barrier);
}

// Reads the first and the last byte, so that an invalid range causes a fault.
inline void bulk_prefetch(const void* from, int num_bytes) {
  const auto* const bytes = static_cast<const volatile char*>(from);
  static_cast<void>(bytes[0] + bytes[num_bytes - 1]);
  if (emulated::on_prefetch) emulated::on_prefetch(from, num_bytes);
}

}  // namespace nibble::cuda
