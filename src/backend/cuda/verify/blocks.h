// The host quantises activations to the formats of block-scaled products (block_rows.h), decodes them, and compares results in such a
// format with expected numbers. The place of each code is said here once more, element by element.
#pragma once

#include <vector>

#include "backend/cuda/block_rows.h"
#include "backend/cuda/verify/device_array.h"
#include "backend/cuda/verify/matrix.h"

namespace nibble::cuda::verify {

struct HostBlocks {
  BlockFormat format;
  int rows, cols;
  std::vector<uint8_t> codes;
  std::vector<uint32_t> scales;

  int num_blocks() const {
    return padded_cols(cols) / kBlockCols;
  }  // of a row, with the one that fills the last tile
  uint8_t scale(int row, int block, int term) const;
  double code(int row, int col, int term) const;  // what a code is worth, without its scale
  double value(int row, int col) const;           // all terms
};

// The scales of a block, four lanes of eight neighbours, whose errors add up in the order of the kernels (quantise_block.cuh).
struct BlockScales {
  uint32_t largest;  // the bits of its largest magnitude
  uint8_t mxfp8, mxfp4;
};
BlockScales scales_of_block(const float (&x)[4][8]);

// Quantises rows with the host's instance of what the kernels quantise with.
HostBlocks quantise_rows(BlockFormat format, int rows, int cols, const std::vector<uint16_t>& bf16);

// The numbers that a product multiplies. `is_native`: by the instruction, else by its twin.
Activations activations_of(const HostBlocks& blocks, bool is_native);

// The same on the device.
class DeviceBlocks {
 public:
  DeviceBlocks(BlockFormat format, int rows, int cols);  // poison
  explicit DeviceBlocks(const HostBlocks& blocks);
  BlockRows view() const { return {format_, cols_, codes_.data(), scales_.data()}; }
  HostBlocks read(Comparison& comparison, const char* what) const;

 private:
  BlockFormat format_;
  int rows_, cols_;
  DeviceArray<uint8_t> codes_;
  DeviceArray<uint32_t> scales_;
};

// Requires every byte to be the same, padding included.
void compare_bytes(Comparison& comparison, const char* what, const HostBlocks& actual,
                   const HostBlocks& expected);

// A number that a kernel computed within `bound`, before it rounded it to bfloat16 and quantised it.
struct Near {
  double value, bound;
};
// Compares a row with its numbers: the scales are those of the largest, the codes are the nearest, and what fills the last tile is zero.
void compare_numbers(Comparison& comparison, const char* what, const HostBlocks& actual, int row,
                     const std::vector<Near>& expected);

}  // namespace nibble::cuda::verify
