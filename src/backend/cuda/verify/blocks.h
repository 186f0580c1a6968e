// Activations in the formats of block-scaled products (block_rows.h), on the host: quantises and decodes
// them, and compares results with expected numbers. The positions of codes are defined here again.
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

  int num_blocks() const { return padded_cols(cols) / kBlockCols; }  // blocks of a padded row
  uint8_t scale(int row, int block, int term) const;
  double code(int row, int col, int term) const;  // the value of a code, without its scale
  double value(int row, int col) const;           // the sum of all terms
};

// Scales of a block: four lanes with eight elements, errors added in the order of quantise_block.cuh.
struct BlockScales {
  uint32_t largest;  // bits of the float32 of largest magnitude among the 32
  uint8_t mxfp8, mxfp4;
};
BlockScales scales_of_block(const float (&x)[4][8]);

// Quantises rows with the host build of the kernels' code.
HostBlocks quantise_rows(BlockFormat format, int rows, int cols, const std::vector<uint16_t>& bf16);

// The numbers that block-scaled products multiply. is_native: true for the instruction, false for its twin.
Activations activations_of(const HostBlocks& blocks, bool is_native);

class DeviceBlocks {  // HostBlocks in device memory
 public:
  DeviceBlocks(BlockFormat format, int rows, int cols);  // filled with poison
  explicit DeviceBlocks(const HostBlocks& blocks);
  BlockRows view() const { return {format_, cols_, codes_.data(), scales_.data()}; }
  HostBlocks read(Comparison& comparison, const char* what) const;

 private:
  BlockFormat format_;
  int rows_, cols_;
  DeviceArray<uint8_t> codes_;
  DeviceArray<uint32_t> scales_;
};

// Requires all bytes of `actual` and `expected` to be equal, padding included.
void compare_bytes(Comparison& comparison, const char* what, const HostBlocks& actual,
                   const HostBlocks& expected);

// A number within `bound` of `value` before the kernel rounds it to bfloat16 and quantises it.
struct Near {
  double value, bound;
};
// Compares a row: scales follow from the largest magnitude, codes are the nearest, and padding is zero.
void compare_numbers(Comparison& comparison, const char* what, const HostBlocks& actual, int row,
                     const std::vector<Near>& expected);

}  // namespace nibble::cuda::verify
