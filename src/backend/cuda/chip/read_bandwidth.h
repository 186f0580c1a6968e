#pragma once

namespace nibble::cuda {

// Measures at how many bytes per second all SMs read GPU memory: the best of 10 passes over 2 GiB.
double read_bandwidth();

}  // namespace nibble::cuda
