#pragma once

namespace nibble::cuda {

// Bytes per second at which all multiprocessors read the GPU's memory: the best of several passes over 2 GB.
double read_bandwidth();

}  // namespace nibble::cuda
