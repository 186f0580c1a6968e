// The twin of ptx/dependent_launch.cuh: launches follow each other.
#pragma once

namespace nibble::cuda {

inline void wait_for_dependencies() {}
inline void launch_dependents() {}

}  // namespace nibble::cuda
