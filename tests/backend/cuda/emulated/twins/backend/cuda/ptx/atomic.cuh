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
inline unsigned take_turn(unsigned* number, unsigned last) { return increment_up_to(number, last); }

inline unsigned add_in_order(unsigned* number, unsigned more) {
  return std::atomic_ref<unsigned>(*number).fetch_add(more);
}
inline unsigned load_acquire(const unsigned* number) {
  emulated::yield();
  return std::atomic_ref(*const_cast<unsigned*>(number)).load();
}

}  // namespace nibble::cuda
