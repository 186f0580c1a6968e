// Atomic operations with an order that C++ cannot ask for at the scope of a GPU.
#pragma once

namespace nibble::cuda {

// Adds one to a number, or puts 0 where it was `last`, and returns what it was. It comes behind all that this thread, and those of its CTA
// that it has synchronised with, stored before; and what others stored before they came here is there behind it.
__device__ inline unsigned increment_up_to(unsigned* number, unsigned last) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(number), "r"(last)
               : "memory");
  return before;
}

// Adds to a number, in the same order with what was stored, and returns what it was.
__device__ inline unsigned add_in_order(unsigned* number, unsigned more) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(number), "r"(more)
               : "memory");
  return before;
}
// Loads a number. The caller then sees all that other threads stored before they added to it.
__device__ inline unsigned load_acquire(const unsigned* number) {
  unsigned now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(number) : "memory");
  return now;
}

}  // namespace nibble::cuda
