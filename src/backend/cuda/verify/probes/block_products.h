// Runs block-scaled products of given registers on the GPU.
#pragma once

#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/ptx/block_codes.h"
#include "backend/cuda/verify/block_truth.h"

namespace nibble::cuda::verify {

enum class BlockProduct {
  kNative,    // block_mma: the instruction, or its twin if the GPU has none
  kTwin,      // block_mma_twin on every GPU
  kUnscaled,  // the instruction of kMxfp8 without scales; leaves d if the GPU has none
};

// One warp per element; d becomes the product. The bytes are block_mma's template arguments; kUnscaled
// ignores them.
struct BlockProductArgs {
  BlockProduct product;
  BlockForm form;
  int a_byte, b_byte;
  WarpRegisters* warps;
  int count;
};
void multiply_blocks(Stream stream, const BlockProductArgs& args);

// Reports whether the code that runs on this GPU has the instruction. `is_native` is in device memory.
void ask_block_mma(Stream stream, int* is_native);

}  // namespace nibble::cuda::verify
