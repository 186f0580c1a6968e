#pragma once

namespace nibble::cuda {

// Adds 1 to *number, or sets *number to 0 if it equals `last`; returns the old value. The addition acquires
// and releases at GPU scope: a thread that calls this function later sees everything that this thread stored
// before its call, and what other threads stored before they synchronised with this thread.
__device__ inline unsigned increment_up_to(unsigned* number, unsigned last) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(number), "r"(last)
               : "memory");
  return before;
}

}  // namespace nibble::cuda
