// A .cu file that is compiled for the CPU includes this header before all others. The header defines CUDA
// C++'s additions to C++, such as atomics and warp exchanges, for GPU threads that are fibers
// (emulated_gpu.h). The toolkit's headers provide the types and their host functions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/backend/cuda/emulated/emulated_gpu.h"
#include "tests/backend/cuda/emulated/prepared.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __forceinline__
#undef __noinline__
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local  // one for each CTA: a CTA is a host thread
#define __launch_bounds__(...)
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__

// Replaces the toolkit's function of this name, a template that calls the driver.
#define cudaLaunchKernelEx nibble::emulated::launch_prepared
template <typename... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute, int value) {
  nibble::emulated::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
  return cudaSuccess;
}

using std::max;
using std::min;
using std::signbit;

namespace nibble::emulated {

template <typename... Params, typename... Args>
cudaError_t launch_prepared(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  const cudaError_t error = why_not_prepared(reinterpret_cast<const void*>(kernel), *config);
  return error == cudaSuccess ? launch(config, kernel, std::forward<Args>(args)...) : error;
}

// The values that the lanes of a warp passed to exchange().
template <typename T>
class Given {
 public:
  explicit Given(const uint8_t* bytes) : bytes_(bytes) {}
  T operator[](int lane) const {
    T of_lane;
    std::memcpy(&of_lane, bytes_ + static_cast<size_t>(lane) * kExchangeBytes, sizeof(T));
    return of_lane;
  }

 private:
  const uint8_t* bytes_;
};
// Returns the values that all lanes of the warp passed. All lanes must call exchange(). The result is valid
// until the exchange after the next one.
template <typename T>
Given<T> exchange(const T& own) {
  static_assert(sizeof(T) <= kExchangeBytes && std::is_trivially_copyable_v<T>);
  return Given<T>(exchange_bytes(&own, sizeof(T)));
}
inline int lane() { return static_cast<int>(threadIdx.x % 32); }

}  // namespace nibble::emulated

inline void __syncthreads() { nibble::emulated::sync_cta(); }
inline int __syncthreads_or(int predicate) {
  static thread_local int any;  // one for each CTA: a CTA is a host thread
  nibble::emulated::sync_cta();
  any = 0;
  nibble::emulated::sync_cta();
  if (predicate) any = 1;
  nibble::emulated::sync_cta();
  return any;
}
inline void __syncwarp(unsigned = ~0u) { nibble::emulated::exchange(char{}); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
template <typename T>
T __shfl_sync(unsigned, T value, int from, int = 32) {
  return nibble::emulated::exchange(value)[from % 32];
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int distance, int = 32) {
  return nibble::emulated::exchange(value)[nibble::emulated::lane() ^ distance];
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const auto all = nibble::emulated::exchange(value);
  for (int lane = 0; lane < 32; ++lane) value = std::max(value, all[lane]);
  return value;
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const auto all = nibble::emulated::exchange(vote);
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= unsigned{all[lane]} << lane;
  return votes;
}
inline unsigned __match_any_sync(unsigned, int value) {
  const auto all = nibble::emulated::exchange(value);
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane) same |= unsigned{all[lane] == value} << lane;
  return same;
}

template <typename T>
T __ldcg(const T* from) {
  return *from;
}
template <typename T>
T __ldcs(const T* from) {
  return *from;
}
template <typename T>
void __stcg(T* to, T value) {
  *to = value;
}
template <typename T>
T atomicAdd(T* number, T more) {
  return std::atomic_ref(*number).fetch_add(more);
}
inline unsigned atomicInc(unsigned* number, unsigned last) {
  const std::atomic_ref<unsigned> shared(*number);
  unsigned before = shared.load();
  while (!shared.compare_exchange_weak(before, before >= last ? 0 : before + 1)) {
  }
  return before;
}
// Replaces the number by `other` if `other` is better. Returns the old value.
template <typename T, typename Better>
T replace_by(T* number, T other, const Better& is_better) {
  std::atomic_ref<T> shared(*number);
  T before = shared.load();
  while (is_better(other, before) && !shared.compare_exchange_weak(before, other)) {
  }
  return before;
}
template <typename T>
T atomicMax(T* number, T other) {
  return replace_by(number, other, std::greater<T>());
}
template <typename T>
T atomicMin(T* number, T other) {
  return replace_by(number, other, std::less<T>());
}

inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t choice) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i)
    chosen |= static_cast<uint32_t>(bytes >> 8 * (choice >> 4 * i & 7) & 0xFF) << 8 * i;
  return chosen;
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline uint32_t __float_as_uint(float number) { return std::bit_cast<uint32_t>(number); }
inline int __float_as_int(float number) { return std::bit_cast<int>(number); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float number) { return 1 / std::sqrt(number); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clzll(long long bits) {
  return bits ? __builtin_clzll(static_cast<unsigned long long>(bits)) : 64;
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned long long __float2ull_rn(float number) {
  return static_cast<unsigned long long>(std::nearbyint(number));
}
