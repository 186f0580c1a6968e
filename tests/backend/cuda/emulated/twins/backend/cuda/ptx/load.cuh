// C++ version of ptx/load.cuh. A shared-memory address is an offset into the shared memory of the CTA.
#pragma once

namespace nibble::cuda {

template <typename T>
T load_shared(uint32_t from) {
  T value;
  std::memcpy(&value, emulated::shared_memory.bytes + from, sizeof value);
  return value;
}
inline uint4 load_shared_16(uint32_t from) { return load_shared<uint4>(from); }
inline uint2 load_shared_8(uint32_t from) { return load_shared<uint2>(from); }
inline uint32_t load_shared_4(uint32_t from) { return load_shared<uint32_t>(from); }

inline void load_matrices(uint32_t (&matrices)[4], uint32_t row) {
  const auto rows = emulated::exchange(row);
  const int lane = emulated::lane(), g = lane / 4, t = lane % 4;
  for (int m = 0; m < 4; ++m)
    matrices[m] = load_shared<uint32_t>(rows[8 * m + g] + 4u * static_cast<uint32_t>(t));
}
inline void load_transposed(uint32_t (&matrices)[4], uint32_t row) {
  const auto rows = emulated::exchange(row);
  const int lane = emulated::lane(), g = lane / 4, t = lane % 4;
  for (int m = 0; m < 4; ++m) {
    const auto element = [&](int of_row) {
      return uint32_t{load_shared<uint16_t>(rows[8 * m + of_row] + 2u * static_cast<uint32_t>(g))};
    };
    matrices[m] = element(2 * t) | element(2 * t + 1) << 16;
  }
}

inline void prefetch_to_l2(const void*) {}

template <typename T>
T load_now(const T* from) {
  return *from;
}
template <typename T>
T from_here(T value) {
  return value;
}

inline uint64_t load_relaxed(const uint64_t* from) {
  emulated::yield();
  return std::atomic_ref(*const_cast<uint64_t*>(from)).load();
}
inline void store_relaxed(uint64_t* to, uint64_t word) { std::atomic_ref(*to).store(word); }
inline float load_relaxed(const float* from) {
  emulated::yield();
  return std::atomic_ref(*const_cast<float*>(from)).load();
}
inline float4 load_relaxed(const float4* from) {
  const auto* words = reinterpret_cast<const float*>(from);
  return {load_relaxed(words), load_relaxed(words + 1), load_relaxed(words + 2), load_relaxed(words + 3)};
}
inline void store_relaxed(float* to, float word) { std::atomic_ref(*to).store(word); }
inline void store_relaxed(float2* to, float2 words) {
  store_relaxed(&to->x, words.x);
  store_relaxed(&to->y, words.y);
}
inline uint64_t load_relaxed_in_cta(const uint64_t* from) { return load_relaxed(from); }
inline void store_relaxed_in_cta(uint64_t* to, uint64_t word) { store_relaxed(to, word); }

}  // namespace nibble::cuda
