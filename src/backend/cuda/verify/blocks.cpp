#include "backend/cuda/verify/blocks.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/ptx/quantise_block.h"
#include "backend/cuda/verify/host_threads.h"
#include "backend/cuda/verify/same_bits.h"
#include "core/numbers/e2m1.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/e8m0.h"

namespace nibble::cuda::verify {
namespace {

HostBlocks zero_blocks(BlockFormat format, int rows, int cols) {
  const size_t num_tiles = size_t{1} * rows * (padded_cols(cols) / kTileCols);
  return {format, rows, cols, std::vector<uint8_t>(num_tiles * row_tile_bytes(format)),
          std::vector<uint32_t>(num_tiles)};
}

size_t tile_of(const HostBlocks& blocks, int row, int col) {
  return size_t{1} * row * (blocks.num_blocks() / 2) + col / kTileCols;
}

// Place of a code in memory. In a tile, each lane t = 0..3 has 8 codes of columns 0-31, and then 8 codes of
// columns 32-63.
struct CodePlace {
  size_t byte;
  int nibble;  // MXFP4: 0 is the byte's low half, 1 its high half
};
CodePlace place_of_code(const HostBlocks& blocks, int row, int col, int term) {
  const int in_tile = col % 64, group = in_tile / 32, t = in_tile % 32 / 8, neighbour = in_tile % 8;
  const bool is_mxfp4 = blocks.format == BlockFormat::kMxfp4;
  constexpr int kPlaceOfE4m3[]{0, 2, 4, 6, 1, 3, 5, 7}, kPlaceOfE2m1[]{0, 4, 1, 5, 2, 6, 3, 7};
  const size_t tile = tile_of(blocks, row, col);
  if (is_mxfp4) {
    const int place = kPlaceOfE2m1[neighbour];
    return {tile * 32 + t * 8 + group * 4 + place / 2, place % 2};
  }
  const size_t tile_bytes = blocks.format == BlockFormat::kMxfp8x2 ? 128 : 64;
  return {tile * tile_bytes + term * 64 + t * 16 + group * 8 + kPlaceOfE4m3[neighbour], 0};
}

void put(HostBlocks& blocks, int row, int eight, int term, const EightE4m3& codes) {
  const CodePlace first = place_of_code(blocks, row, 8 * eight, term);
  memcpy(blocks.codes.data() + first.byte, &codes.first, 4);
  memcpy(blocks.codes.data() + first.byte + 4, &codes.second, 4);
}
void put_scale(HostBlocks& blocks, int row, int block, int term, uint8_t scale) {
  blocks.scales[tile_of(blocks, row, block * kBlockCols)] |= uint32_t{scale} << 8 * (block % 2 + 2 * term);
}

void quantise_block(HostBlocks& blocks, int row, int block, const float (&x)[4][8]) {
  const auto [largest, scale, nibble_scale] = scales_of_block(x);
  const bool is_mxfp4 = blocks.format == BlockFormat::kMxfp4;
  put_scale(blocks, row, block, 0, is_mxfp4 ? nibble_scale : scale);
  if (blocks.format == BlockFormat::kMxfp8x2) put_scale(blocks, row, block, 1, rest_scale(scale));
  for (int t = 0; t < 4; ++t) {
    const int eight = 4 * block + t;
    if (is_mxfp4) {
      const uint32_t codes = quantise_mxfp4(x[t], largest, nibble_scale);
      memcpy(blocks.codes.data() + place_of_code(blocks, row, 8 * eight, 0).byte, &codes, 4);
    } else if (blocks.format == BlockFormat::kMxfp8) {
      put(blocks, row, eight, 0, quantise_mxfp8(x[t], largest));
    } else {
      const TwoTerms terms = quantise_two_terms(x[t], largest);
      put(blocks, row, eight, 0, terms.first);
      put(blocks, row, eight, 1, terms.second);
    }
  }
}

// The next three functions return the distance between adjacent numbers of a format near x. The largest E2M1
// number is 6. For it, step_of_e2m1() returns 4, so that an error of 2 (half a step) is allowed: kernels turn
// values between 6 and 8 into 6.
double step_of_bf16(double x) { return std::exp2(std::max(std::floor(std::log2(std::abs(x))), -126.0) - 7); }
double step_of_e4m3(double x) { return std::exp2(std::max(std::floor(std::log2(std::abs(x))), -6.0) - 3); }
double step_of_e2m1(double x) {
  const double magnitude = std::abs(x);
  return magnitude < 2 ? 0.5 : magnitude < 4 ? 1 : magnitude < 6 ? 2 : 4;
}

uint32_t bf16_bits(double x) { return uint32_t{to_bf16(static_cast<float>(x)).bits} << 16; }

}  // namespace

uint8_t HostBlocks::scale(int row, int block, int term) const {
  return static_cast<uint8_t>(scales[tile_of(*this, row, block * kBlockCols)] >> 8 * (block % 2 + 2 * term));
}
double HostBlocks::code(int row, int col, int term) const {
  const CodePlace place = place_of_code(*this, row, col, term);
  const uint8_t byte = codes[place.byte];
  if (format == BlockFormat::kMxfp4)
    return to_float(E2m1{static_cast<uint8_t>(byte >> 4 * place.nibble & 15)});
  return to_float(E4m3{byte});
}
double HostBlocks::value(int row, int col) const {
  double sum = 0;
  for (int term = 0; term < num_terms(format); ++term)
    sum += code(row, col, term) * double{to_float(E8m0{scale(row, col / kBlockCols, term)})};
  return sum;
}

BlockScales scales_of_block(const float (&x)[4][8]) {
  uint32_t largest = 0;
  for (const auto& eight : x) largest = std::max(largest, largest_magnitude(eight));
  Mxfp4Errors errors[4];
  for (int t = 0; t < 4; ++t) errors[t] = mxfp4_errors(x[t], largest);
  const Mxfp4Errors sum{
      (errors[0].of_scale + errors[1].of_scale) + (errors[2].of_scale + errors[3].of_scale),
      (errors[0].of_twice + errors[1].of_twice) + (errors[2].of_twice + errors[3].of_twice)};
  return {largest, mxfp8_scale(largest), better_mxfp4_scale(largest, sum)};
}

HostBlocks quantise_rows(BlockFormat format, int rows, int cols, const std::vector<uint16_t>& bf16) {
  HostBlocks blocks = zero_blocks(format, rows, cols);
  host_threads().for_each(rows, [&](ptrdiff_t row, int) {
    for (int block = 0; block < cols / kBlockCols; ++block) {
      float x[4][8];
      for (int i = 0; i < kBlockCols; ++i)
        x[i / 8][i % 8] = float_of(bf16[size_t{1} * row * cols + block * kBlockCols + i]);
      quantise_block(blocks, static_cast<int>(row), block, x);
    }
  });
  return blocks;
}

// The values are exact in float32, because the sum of a number's two terms spans at most 13 bits.
Activations activations_of(const HostBlocks& blocks, bool is_native) {
  Activations x(blocks.rows, blocks.cols);
  host_threads().for_each(blocks.rows, [&](ptrdiff_t row, int) {
    for (int col = 0; col < blocks.cols; ++col)
      x.values[size_t{1} * row * blocks.cols + col] =
          static_cast<float>(blocks.value(static_cast<int>(row), col));
  });
  x.block_products = {{num_terms(blocks.format), is_native}};
  return x;
}

DeviceBlocks::DeviceBlocks(BlockFormat format, int rows, int cols)
    : format_(format),
      rows_(rows),
      cols_(cols),
      codes_(zero_blocks(format, rows, cols).codes.size()),
      scales_(zero_blocks(format, rows, cols).scales.size()) {}
DeviceBlocks::DeviceBlocks(const HostBlocks& blocks)
    : format_(blocks.format),
      rows_(blocks.rows),
      cols_(blocks.cols),
      codes_(blocks.codes),
      scales_(blocks.scales) {}

HostBlocks DeviceBlocks::read(Comparison& comparison, const char* what) const {
  return {format_, rows_, cols_, codes_.read(comparison, what), scales_.read(comparison, what)};
}

void compare_bytes(Comparison& comparison, const char* what, const HostBlocks& actual,
                   const HostBlocks& expected) {
  compare_bits(comparison, what, static_cast<int>(actual.codes.size()) / actual.rows, actual.codes,
               expected.codes);
  compare_bits(comparison, what, static_cast<int>(actual.scales.size()) / actual.rows, actual.scales,
               expected.scales);
}

void compare_numbers(Comparison& comparison, const char* what, const HostBlocks& actual, int row,
                     const std::vector<Near>& expected) {
  const bool is_mxfp4 = actual.format == BlockFormat::kMxfp4;
  for (int block = 0; block < actual.num_blocks(); ++block) {
    const uint8_t scale = actual.scale(row, block, 0);
    const bool is_padding = block * kBlockCols >= actual.cols;
    double least = 0, most = 0;  // bounds of the block's largest magnitude
    for (int i = block * kBlockCols; !is_padding && i < (block + 1) * kBlockCols; ++i) {
      const Near& number = expected[i];
      least = std::max(least, std::abs(number.value) - number.bound);
      most = std::max(most, std::abs(number.value) + number.bound);
    }
    const auto scale_of = [&](double x) {
      return is_mxfp4 ? mxfp4_scale(bf16_bits(x)) : mxfp8_scale(bf16_bits(x));
    };
    const int lowest = scale_of(least), highest = scale_of(most) + (is_mxfp4 && most > 0 ? 1 : 0);
    comparison.equal("scale", row, block, scale, std::clamp(int{scale}, lowest, highest));
    if (num_terms(actual.format) == 2)
      comparison.equal("second scale", row, block, actual.scale(row, block, 1), rest_scale(scale));
    const double unit = to_float(E8m0{scale});
    for (int i = block * kBlockCols; i < (block + 1) * kBlockCols; ++i) {
      const double value = actual.value(row, i);
      if (is_padding) {
        comparison.equal(what, row, i, value, 0);
        continue;
      }
      const Near& number = expected[i];
      const double code = actual.code(row, i, 0);
      // The sum of two terms differs from the number by at most half the smallest step of the second term.
      // That step is 2^-9 times the second scale. The second scale is 2^-4 times the first scale (`unit`),
      // but at least 2^-127, the smallest possible scale.
      const double step = actual.format == BlockFormat::kMxfp8x2
                              ? std::max(0x1p-13 * unit, 0x1p-136)
                              : unit * (is_mxfp4 ? step_of_e2m1(code) : step_of_e4m3(code));
      comparison.near_step({what, row, i}, value, number.value,
                           step + step_of_bf16(std::max(std::abs(value), std::abs(number.value))),
                           number.bound);
    }
  }
}

}  // namespace nibble::cuda::verify
