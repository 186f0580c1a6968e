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

  int num_blocks() const { return padded_cols(cols) / kBlockCols; }  // blocks in a padded row
  uint8_t scale(int row, int block, int term) const;
  double code(int row, int col, int term) const;  // value of a code, without its scale
  double value(int row, int col) const;           // sum of all terms
};

// Scales of a block of four lanes with eight elements. Errors are added in the order of quantise_block.cuh.
struct BlockScales {
  uint32_t largest;  // float32 bits of the largest magnitude of the 32 elements
  uint8_t mxfp8, mxfp4;
};
BlockScales scales_of_block(const float (&x)[4][8]);

// Quantises rows by the kernels' code, compiled for the host.
HostBlocks quantise_rows(BlockFormat format, int rows, int cols, const std::vector<uint16_t>& bf16);

// Returns the numbers that block-scaled products multiply. is_native: the instruction; false: its twin.
Activations activations_of(const HostBlocks& blocks, bool is_native);

class DeviceBlocks {  // HostBlocks in device memory
 public:
  DeviceBlocks(BlockFormat format, int rows, int cols);  // the memory is poisoned
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

// A number before the kernel rounds it to bfloat16 and quantises it. It must be within `bound` of `value`.
struct Near {
  double value, bound;
};
// Compares a row: scales must follow from the largest magnitude, codes be the nearest, and padding be zero.
void compare_numbers(Comparison& comparison, const char* what, const HostBlocks& actual, int row,
                     const std::vector<Near>& expected);

}  // namespace nibble::cuda::verify
