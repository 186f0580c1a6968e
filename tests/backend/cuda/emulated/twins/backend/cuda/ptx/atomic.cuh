// The twin of ptx/atomic.cuh.
#pragma once

namespace nibble::cuda {

inline unsigned increment_up_to(unsigned* number, unsigned last) { return atomicInc(number, last); }

inline unsigned add_in_order(unsigned* number, unsigned more) {
  return std::atomic_ref<unsigned>(*number).fetch_add(more);
}
inline unsigned load_acquire(const unsigned* number) {
  emulated::yield();
  return std::atomic_ref(*const_cast<unsigned*>(number)).load();
}

}  // namespace nibble::cuda
