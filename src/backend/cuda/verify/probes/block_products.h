// Runs block-scaled products on the GPU. Operands and sums are given as the registers of warps.
#pragma once

#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/ptx/block_codes.h"
#include "backend/cuda/verify/block_truth.h"

namespace nibble::cuda::verify {

enum class BlockProduct {
  kNative,    // block_mma(): the mma instruction or, on GPUs without it, its software twin
  kTwin,      // block_mma_twin(), on every GPU
  kUnscaled,  // the MXFP8 instruction without scales; GPUs without it leave d unchanged
};

// Warp n reads the operands a and b in warps[n], and adds their product to warps[n].d. kUnscaled ignores the
// scales.
struct BlockProductArgs {
  BlockProduct product;
  BlockForm form;
  int a_byte, b_byte;
  WarpRegisters* warps;
  int count;
};
void multiply_blocks(Stream stream, const BlockProductArgs& args);

// Stores in *is_native (GPU memory) whether the code that this GPU runs has the block-scaled mma instruction.
void ask_block_mma(Stream stream, int* is_native);

}  // namespace nibble::cuda::verify
