// Makes operands of block-scaled products on the GPU, as kernels do.
#pragma once

#include <cstdint>

#include "backend/cuda/chip/device.h"

namespace nibble::cuda::verify {

// One thread unpacks one lane's four words of a tile (strips.h).
struct UnpackArgs {
  const uint32_t* words;  // [count, 4]
  uint32_t* containers;   // [count, 2, 4]: for both groups of 32 columns
  uint32_t* nibbles;      // [count, 4]
  int count;
};
void unpack_codes(Stream stream, const UnpackArgs& args);

struct QuantiseArgs {      // one quad of lanes per block of 32
  const float* x;          // [num_blocks, 32]
  uint32_t *first, *rest;  // [num_blocks, 8]: E4M3; `first` alone is MXFP8
  uint32_t* nibbles;       // [num_blocks, 4]: E2M1
  uint8_t* scales;         // [num_blocks, 3]: of first, rest, nibbles
  int num_blocks;
};
void quantise_blocks(Stream stream, const QuantiseArgs& args);

}  // namespace nibble::cuda::verify
