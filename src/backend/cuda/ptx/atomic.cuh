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

}  // namespace nibble::cuda
