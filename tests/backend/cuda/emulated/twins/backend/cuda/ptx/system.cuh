// C++ version of ptx/system.cuh. Each of the two words is atomic, but the pair is not. This is enough: no
// test here reads both words while another thread writes them.
#pragma once

namespace nibble::cuda {

struct TwoWords {
  uint64_t first, second;
};
inline void store_relaxed_system(uint64_t* to, const TwoWords& words) {
  std::atomic_ref(to[0]).store(words.first);
  std::atomic_ref(to[1]).store(words.second);
}
inline TwoWords load_relaxed_system(const uint64_t* from) {
  emulated::yield();
  auto* const words = const_cast<uint64_t*>(from);
  return {std::atomic_ref(words[0]).load(), std::atomic_ref(words[1]).load()};
}
inline void store_release_system(uint32_t* to, uint32_t number) { std::atomic_ref(*to).store(number); }
inline uint32_t load_acquire_system(const uint32_t* from) {
  emulated::yield();
  return std::atomic_ref(*const_cast<uint32_t*>(from)).load();
}

}  // namespace nibble::cuda
