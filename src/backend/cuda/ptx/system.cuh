// Loads and stores of words that threads of another GPU access too (system scope).
#pragma once

#include <cstdint>

namespace nibble::cuda {

struct TwoWords {
  uint64_t first, second;
};

// Stores or loads two words. The access to each word is atomic. The two accesses may happen in any order, and
// they do not order other accesses.
__device__ inline void store_relaxed_system(uint64_t* to, const TwoWords& words) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(words.first), "l"(words.second)
               : "memory");
}
__device__ inline TwoWords load_relaxed_system(const uint64_t* from) {
  TwoWords words;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(words.first), "=l"(words.second)
               : "l"(from)
               : "memory");
  return words;
}

// A thread that reads a number by load_acquire_system() sees everything that the number's writer stored
// before store_release_system(), and what other threads stored before they synchronised with the writer.
__device__ inline void store_release_system(uint32_t* to, uint32_t number) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(number) : "memory");
}
__device__ inline uint32_t load_acquire_system(const uint32_t* from) {
  uint32_t number;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(number) : "l"(from) : "memory");
  return number;
}

}  // namespace nibble::cuda
