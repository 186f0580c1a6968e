// Measures how fast the GPU's memory is read.
#pragma once

namespace nibble::cuda {

// Returns the bytes per second that all multiprocessors together read from the GPU's memory: the best of
// several passes over 2 GB.
double read_bandwidth();

}  // namespace nibble::cuda
