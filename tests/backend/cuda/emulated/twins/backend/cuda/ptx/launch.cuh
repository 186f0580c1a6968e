// C++ version of ptx/launch.cuh. On the emulated GPU, launches never overlap.
#pragma once

#include <chrono>

namespace nibble::cuda {

inline unsigned long long now_ns() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline unsigned thread_of_cta() { return threadIdx.x; }
inline uint32_t dynamic_shared_bytes() { return emulated::shared_memory.num_bytes; }

inline void wait_for_dependencies() {}
inline void launch_dependents() {}

}  // namespace nibble::cuda

#define NIBBLE_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<decltype(name)>(static_cast<void*>(emulated::shared_memory.bytes))
