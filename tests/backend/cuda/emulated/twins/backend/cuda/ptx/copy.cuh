// The twin of ptx/copy.cuh: that of a chip with a copy engine. What a bulk copy may not do ends the test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>

#include "backend/cuda/ptx/barrier.cuh"

namespace nibble::cuda {

inline void copy_bytes(uint32_t to, const void* from, int num_bytes) {
  if (to + static_cast<uint32_t>(num_bytes) > emulated::shared_memory.num_bytes) {
    std::fprintf(stderr, "a copy of %d bytes ends behind shared memory\n", num_bytes);
    std::abort();
  }
  std::memcpy(emulated::shared_memory.bytes + to, from, static_cast<size_t>(num_bytes));
}
inline void copy_16(uint32_t to, const void* from) { copy_bytes(to, from, 16); }
inline void copy_4(uint32_t to, const void* from) { copy_bytes(to, from, 4); }
inline void copy_16(uint32_t to, const void* from, int num_bytes) {
  std::memset(emulated::shared_memory.bytes + to, 0, 16);
  copy_bytes(to, from, num_bytes);
}
inline void end_copies() {}
template <int later>
void wait_for_copies() {}

inline constexpr bool kHasBulkCopies{true};
inline constexpr uint64_t kEvictFirst{1}, kEvictNormal{0};

// The bytes that phases still expect, by their barriers.
inline thread_local std::map<uint32_t, int> expected_bytes;
// The arrival is counted when the bytes are there: no barrier here expects bytes with more than one arrival.
inline void arrive_and_expect(uint32_t barrier, int num_bytes) { expected_bytes[barrier] += num_bytes; }
inline void bulk_copy(uint32_t to, const void* from, int num_bytes, uint32_t barrier, uint64_t) {
  int& expected = expected_bytes[barrier];
  if (num_bytes % 16 || to % 16 || reinterpret_cast<uintptr_t>(from) % 16 || num_bytes > expected) {
    std::fprintf(stderr, "a bulk copy of %d bytes, of %d expected, from %p to %u\n", num_bytes, expected,
                 from, to);
    std::abort();
  }
  copy_bytes(to, from, num_bytes);
  if ((expected -= num_bytes) == 0) arrive(barrier);
}

}  // namespace nibble::cuda
