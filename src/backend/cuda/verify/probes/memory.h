// Kernels that ask for memory.
#pragma once

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/pace.h"

namespace nibble::cuda::verify {

// Reads everything once through the rings with which kernels stream weights, all multiprocessors together. `sum` depends on all bytes.
struct RingReadArgs {
  const uint8_t* from;
  int num_slots;  // as many slots of a ring as there is data for
  uint32_t* sum;
  Bus bus;
};
size_t ring_slot_bytes();
void read_through_rings(Stream stream, const RingReadArgs& args);

// Writes the last word of so much dynamic shared memory, reads it back and puts it into *last.
void touch_shared_memory(Stream stream, size_t bytes, uint32_t* last);

}  // namespace nibble::cuda::verify
