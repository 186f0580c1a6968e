#pragma once

#include <vector_types.h>
#include <cstddef>
#include <cstdint>

#include "backend/cuda/chip/device.h"

namespace nibble::cuda {

// Arguments of read_all(), which reads 16 * `count` bytes with all SMs to measure bandwidth.
struct ReadArgs {
  const uint4* from;
  size_t count;
  uint32_t* sum;
};
void read_all(Stream stream, int num_multiprocessors, const ReadArgs& args);

}  // namespace nibble::cuda
