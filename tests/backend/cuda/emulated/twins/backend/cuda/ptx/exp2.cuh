// C++ version of ptx/exp2.cuh.
#pragma once

namespace nibble::cuda {

inline float exp2_of(float x) { return x < -126 ? 0.0f : std::exp2(x); }

}  // namespace nibble::cuda
