// The twin of ptx/dependent_launch.cuh: launches never overlap.
#pragma once

namespace nibble::cuda {

inline void wait_for_dependencies() {}
inline void launch_dependents() {}

}  // namespace nibble::cuda
