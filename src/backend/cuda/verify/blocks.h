// Activations in the formats of block-scaled products (block_rows.h), on the host: quantises, decodes and
// compares them. The places of codes in memory are written here a second time, independently of the kernels.
#pragma once

#include <vector>

#include "backend/cuda/layout/block_rows.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/matrix.h"

namespace nibble::cuda::verify {

struct HostBlocks {
  BlockFormat format;
  int rows, cols;
  std::vector<uint8_t> codes;
  std::vector<uint32_t> scales;

  int num_blocks() const { return padded_cols(cols) / kBlockCols; }  // returns blocks per row, with padding
  uint8_t scale(int row, int block, int term) const;
  double code(int row, int col, int term) const;  // returns a code's value without its scale
  double value(int row, int col) const;           // returns the sum of the terms, each with its scale
};

// Scales of a block of 32 elements. In a kernel, each of four lanes holds 8 of them. For MXFP4 there are two
// candidates, and the kernel takes the scale with the smaller sum of squared errors. scales_of_block() adds
// the errors of the four lanes in the kernel's order, so it takes the same scale.
struct BlockScales {
  uint32_t largest;  // float32 bits of the block's largest magnitude
  uint8_t mxfp8, mxfp4;
};
BlockScales scales_of_block(const float (&x)[4][8]);

// Quantises rows with the kernels' own functions (ptx/quantise_block.h), compiled for the host.
HostBlocks quantise_rows(BlockFormat format, int rows, int cols, const std::vector<uint16_t>& bf16);

// Returns the numbers that a block-scaled product multiplies. `is_native`: whether the block-scaled mma
// instruction computes the product; if false, the instruction's software twin does.
Activations activations_of(const HostBlocks& blocks, bool is_native);

class DeviceBlocks {  // HostBlocks in GPU memory
 public:
  DeviceBlocks(BlockFormat format, int rows, int cols);  // fills the arrays with poison
  explicit DeviceBlocks(const HostBlocks& blocks);
  BlockRows view() const { return {format_, cols_, codes_.data(), scales_.data()}; }
  HostBlocks read(Comparison& comparison, const char* what) const;

 private:
  BlockFormat format_;
  int rows_, cols_;
  DeviceArray<uint8_t> codes_;
  DeviceArray<uint32_t> scales_;
};

// Requires that all bytes of `actual` and `expected` are equal, including padding.
void compare_bytes(Comparison& comparison, const char* what, const HostBlocks& actual,
                   const HostBlocks& expected);

// Expected number before the kernel rounds it to bfloat16 and quantises it. The kernel's own number may
// differ from `value` by up to `bound`.
struct Near {
  double value, bound;
};
// Checks a row: each block's scale must follow from its largest magnitude, each code must be the nearest to
// its expected number, and padding must be zero.
void compare_numbers(Comparison& comparison, const char* what, const HostBlocks& actual, int row,
                     const std::vector<Near>& expected);

}  // namespace nibble::cuda::verify
