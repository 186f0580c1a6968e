// The twin of ptx/atomic.cuh.
#pragma once

namespace nibble::cuda {

inline unsigned increment_up_to(unsigned* number, unsigned last) {
  const std::atomic_ref<unsigned> shared(*number);
  unsigned before = shared.load();
  while (!shared.compare_exchange_weak(before, before >= last ? 0 : before + 1)) {
  }
  return before;
}

}  // namespace nibble::cuda
