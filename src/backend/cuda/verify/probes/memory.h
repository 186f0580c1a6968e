// Kernels of the memory probes.
#pragma once

#include "backend/cuda/chip/device.h"

namespace nibble::cuda::verify {

// Arguments of read_through_rings(). It reads `num_slots` pieces of memory, of ring_slot_bytes() each, once
// with all SMs. Like the kernels that stream weights, it loads them through rings in shared memory. It adds
// the XOR of every four words to *sum.
struct RingReadArgs {
  const uint8_t* from;
  int num_slots;
  uint32_t* sum;
};
size_t ring_slot_bytes();
void read_through_rings(Stream stream, const RingReadArgs& args);

// Writes the last word of `bytes` bytes of dynamic shared memory, reads it back, and stores it in *last.
void touch_shared_memory(Stream stream, size_t bytes, uint32_t* last);

}  // namespace nibble::cuda::verify
