// C++ version of ptx/atomic.cuh.
#pragma once

namespace nibble::cuda {

inline unsigned increment_up_to(unsigned* number, unsigned last) { return atomicInc(number, last); }

}  // namespace nibble::cuda
