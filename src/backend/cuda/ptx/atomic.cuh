#pragma once

namespace nibble::cuda {

// Adds 1 to *number, or sets *number to 0 if it equals `last`; returns the old value. The addition acquires
// and releases at GPU scope: after its own call, a thread sees everything that the threads with earlier calls
// on the same number had stored before those calls, and what other threads had stored before they
// synchronised with one of them.
__device__ inline unsigned increment_up_to(unsigned* number, unsigned last) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(number), "r"(last)
               : "memory");
  return before;
}

}  // namespace nibble::cuda
