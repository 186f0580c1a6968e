// Loads and stores that C++ cannot express.
#pragma once

#include <cstdint>

namespace nibble::cuda {

// These loads take a shared address (shared_address()). If they took a pointer, the compiler would compute
// the shared address at each load.
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

// Loads four 8 x 8 matrices of 16-bit elements. Lane i passes the address of row i % 8 of matrix i / 8, and
// receives elements (g, 2 t) and (g, 2 t + 1) of each matrix, with g = lane / 4 and t = lane % 4.
__device__ inline void load_matrices(uint32_t (&matrices)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}
// Like load_matrices(), but transposed: the lane receives elements (2 t, g) and (2 t + 1, g) of each matrix.
__device__ inline void load_transposed(uint32_t (&matrices)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}

// Prefetches the 128-byte line that contains `from` to L2.
__device__ inline void prefetch_to_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// load_now() loads where it is called. The compiler may delay ordinary loads until their first use.
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

// from_here() returns its argument. It keeps the compiler from moving arithmetic on the value to before the
// call, for example next to the value's load, where the arithmetic would stall.
__device__ inline float from_here(float value) {
  asm volatile("" : "+f"(value));
  return value;
}
__device__ inline uint32_t from_here(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Accesses, at GPU scope, to words that pass data between CTAs. Relaxed accesses do not order other accesses,
// so all data must be in the words themselves.
__device__ inline uint64_t load_relaxed(const uint64_t* from) {
  uint64_t word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}
__device__ inline void store_relaxed(uint64_t* to, uint64_t word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
// Each element of a float2 or float4 is a separate word: one may arrive before the others.
__device__ inline float load_relaxed(const float* from) {
  float word;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(word) : "l"(from) : "memory");
  return word;
}
__device__ inline float4 load_relaxed(const float4* from) {
  float4 words;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(words.x), "=f"(words.y), "=f"(words.z), "=f"(words.w)
               : "l"(from)
               : "memory");
  return words;
}
__device__ inline void store_relaxed(float* to, float word) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(word) : "memory");
}
__device__ inline void store_relaxed(float2* to, float2 words) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(words.x), "f"(words.y)
               : "memory");
}
// Accesses to words in shared memory that pass data between the warps of a CTA.
__device__ inline uint64_t load_relaxed_in_cta(const uint64_t* from) {
  uint64_t word;
  asm volatile("ld.relaxed.cta.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}
__device__ inline void store_relaxed_in_cta(uint64_t* to, uint64_t word) {
  asm volatile("st.relaxed.cta.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

}  // namespace nibble::cuda
