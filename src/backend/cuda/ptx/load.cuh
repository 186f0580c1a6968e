// Loads from shared memory by its own addresses (shared_address): the compiler turns a pointer back into such an address each time.
#pragma once

#include <cstdint>

namespace nibble::cuda {

__device__ inline uint4 load_shared_16(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from));
  return v;
}
__device__ inline uint2 load_shared_8(uint32_t from) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(from));
  return v;
}
__device__ inline uint32_t load_shared_4(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(from));
  return v;
}

}  // namespace nibble::cuda
