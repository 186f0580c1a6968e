// Makes operands of block-scaled products on the GPU, with the device functions that the kernels call.
#pragma once

#include <cstdint>

#include "backend/cuda/chip/device.h"

namespace nibble::cuda::verify {

// Each thread unpacks one lane's share of a tile (strips.h): 32 MXFP4 codes in four words.
struct UnpackArgs {
  const uint32_t* words;  // [count, 4]: each thread's packed codes
  uint32_t* containers;   // [count, 2, 4]: A registers for MXFP8 (m16n8k32), columns 0-31 and 32-63
  uint32_t* nibbles;      // [count, 4]: A registers for MXFP4 (m16n8k64), columns 0-63
  int count;              // number of threads
};
void unpack_codes(Stream stream, const UnpackArgs& args);

struct QuantiseArgs {      // four lanes quantise one block of 32 numbers
  const float* x;          // [num_blocks, 32]: numbers to quantise
  uint32_t *first, *rest;  // [num_blocks, 8]: E4M3 codes. MXFP8x2 is first + rest; MXFP8 is first
  uint32_t* nibbles;       // [num_blocks, 4]: E2M1 codes of MXFP4
  uint8_t* scales;         // [num_blocks, 3]: E8M0 scales of `first`, `rest` and `nibbles`
  int num_blocks;
};
void quantise_blocks(Stream stream, const QuantiseArgs& args);

}  // namespace nibble::cuda::verify
