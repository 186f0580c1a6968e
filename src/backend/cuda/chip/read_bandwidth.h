#pragma once

namespace nibble::cuda {

// Returns the bytes per second at which all SMs read GPU memory: the best of several passes over 2 GB.
double read_bandwidth();

}  // namespace nibble::cuda
