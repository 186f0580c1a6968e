// The loops of DotArgs and WeighArgs (isa/kernels.h) for vectors of any width. The unnamed namespace gives
// each file that includes this header its own copy.
//
// `Simd` is one instruction set. Vec has kLanes floats. sum(v) adds the lanes in a fixed order; if present,
// sums_of_four(a, b, c, d, to) does so for four vectors. bf16(p), e4m3(p) and mxfp4(p, table) decode 2 *
// kLanes elements into two vectors, of the even and of the odd elements. Results of e4m3() must be multiplied
// by kE4m3Factor, a power of two. table(scale) makes the table for mxfp4(). kTileTokens tokens share a
// decoded block.
//
//              x[0]  x[1]  x[2]  x[3]     kTileTokens tokens
//   w[row]      .     .     .     .       Each dot is a vector register: the sum for one row and one token.
//   w[row+1]    .     .     .     .       Blocks are added in the same order in tiles of any size, so a token
//   w[row+2]    .     .     .     .       gets the same bits alone and in a batch. A block of weights is
//   w[row+3]    .     .     .     .       decoded once and multiplies all tokens of the tile.
// A step of one token reads each weight once and is bound by memory. In prefill, w stays in L1 for all
// tokens.
#pragma once

#include "backend/cpu/isa/kernels.h"

namespace nibble::cpu {
namespace {

constexpr int kTileRows{4};

// A table of 2^(e - 127) for every E8M0 code e; NaN for 255. Kernels load the scale from a table, because a
// load with broadcast uses no vector unit.
struct E8m0Floats {
  float of[256];
};
constexpr E8m0Floats kE8m0 = [] {
  E8m0Floats floats{};
  for (uint32_t e = 0; e < 256; ++e)
    floats.of[e] = __builtin_bit_cast(float, e == 0 ? 0x00400000u : e == 255 ? 0x7FC00000u : e << 23);
  return floats;
}();

// One row of weights, by format. decode() returns 2 * kLanes elements from `offset` in a block. prefetch()
// fetches, for one block, a part of the next tile's rows: an MXFP4 row (20b: 1,440 bytes) is too short for
// the hardware prefetcher, and with prefetch() a core reads 1.8 times as fast. finish() turns the sum into
// the result. Rows of formats with an Element type may end within a block.
template <class Simd>
struct Bf16Row {
  using Element = uint16_t;
  static constexpr float kFactor{1};  // element = kFactor * result of decode()
  const Element* elements;

  void open(const DotArgs& args, int row) {
    elements = static_cast<const uint16_t*>(args.weights) + static_cast<ptrdiff_t>(row) * args.cols;
  }
  void prefetch(const DotArgs& args, int block) const {
    const uint16_t* next = elements + static_cast<ptrdiff_t>(kTileRows) * (args.cols + block * kBlock);
    for (int r = 0; r < kTileRows; ++r) __builtin_prefetch(next + r * kBlock);
  }
  int table(int) const { return 0; }
  static auto decode(const Element* p) { return Simd::bf16(p); }
  auto decode(int block, int offset, int) const { return decode(elements + block * kBlock + offset); }
  float finish(float sum) const { return sum; }
};

template <class Simd>
struct E4m3Row {
  using Element = uint8_t;
  static constexpr float kFactor{Simd::kE4m3Factor};
  const Element* elements;
  float scale;

  void open(const DotArgs& args, int row) {
    elements = static_cast<const uint8_t*>(args.weights) + static_cast<ptrdiff_t>(row) * args.cols;
    scale = args.row_scales ? args.row_scales[row] : 1;
  }
  void prefetch(const DotArgs& args, int block) const {
    const uint8_t* next = elements + static_cast<ptrdiff_t>(kTileRows) * (args.cols + block * kBlock);
    __builtin_prefetch(next);
    __builtin_prefetch(next + 64);
  }
  int table(int) const { return 0; }
  static auto decode(const Element* p) { return Simd::e4m3(p); }
  auto decode(int block, int offset, int) const { return decode(elements + block * kBlock + offset); }
  float finish(float sum) const { return sum * kFactor * scale; }
};

template <class Simd>
struct Mxfp4Row {
  const uint8_t* codes;
  const uint8_t* scales;

  void open(const DotArgs& args, int row) {
    codes = static_cast<const uint8_t*>(args.weights) + static_cast<ptrdiff_t>(row) * (args.cols / 2);
    scales = args.scales + static_cast<ptrdiff_t>(row) * (args.cols / kBlock);
  }
  void prefetch(const DotArgs& args, int block) const {
    __builtin_prefetch(codes + static_cast<ptrdiff_t>(kTileRows) * (args.cols + block * kBlock) / 2);
    __builtin_prefetch(scales + static_cast<ptrdiff_t>(kTileRows) * (args.cols / kBlock + block));
  }
  auto table(int block) const { return Simd::table(kE8m0.of[scales[block]]); }
  template <class Table>
  auto decode(int block, int offset, const Table& table) const {
    return Simd::mxfp4(codes + (block * kBlock + offset) / 2, table);
  }
  float finish(float sum) const { return sum; }
};

template <class Simd, int num_rows, int num_tokens>
struct Sums {
  typename Simd::Vec at[num_rows][num_tokens];
};

template <class Simd, int num_rows, int num_tokens, class Row>
inline void add_block(const Row* rows, int block, const float* const* x, ptrdiff_t x_offset,
                      Sums<Simd, num_rows, num_tokens>& sums) {
  for (int r = 0; r < num_rows; ++r) {
    const auto table = rows[r].table(block);
    for (int offset = 0; offset < kBlock; offset += 2 * Simd::kLanes) {
      const auto pair = rows[r].decode(block, offset, table);
      for (int t = 0; t < num_tokens; ++t) {
        const float* even = x[t] + x_offset + offset / 2;
        sums.at[r][t] = Simd::fma(pair.even, Simd::load(even), sums.at[r][t]);
        sums.at[r][t] = Simd::fma(pair.odd, Simd::load(even + kBlock / 2), sums.at[r][t]);
      }
    }
  }
}

// Adds the last cols % 32 columns as a zero-padded block. Not needed for MXFP4 rows, which are whole blocks.
template <class Simd, class Row, int num_rows, int num_tokens>
inline void add_tail(const DotArgs& args, int row, const float* const* x,
                     Sums<Simd, num_rows, num_tokens>& sums) {
  const int first = args.cols / kBlock * kBlock;
  typename Row::Element filled[num_rows][kBlock] = {};
  Row rows[num_rows];
  for (int r = 0; r < num_rows; ++r) {
    rows[r].open(args, row + r);
    for (int c = first; c < args.cols; ++c) filled[r][c - first] = rows[r].elements[c];
    rows[r].elements = filled[r];
  }
  add_block<Simd>(rows, 0, x, first, sums);
}

template <class Simd, class Row, int num_rows, int num_tokens>
inline void dot_tile(const DotArgs& args, int row, int token) {
  Row rows[num_rows];
  for (int r = 0; r < num_rows; ++r) rows[r].open(args, row + r);
  const float* x[num_tokens];
  for (int t = 0; t < num_tokens; ++t) x[t] = args.x[token + t];
  Sums<Simd, num_rows, num_tokens> sums;
  for (int r = 0; r < num_rows; ++r)
    for (int t = 0; t < num_tokens; ++t) sums.at[r][t] = Simd::zero();

  const int num_blocks = args.cols / kBlock;
  // Only the first tile of tokens prefetches, and only rows of this panel: another thread may have the next
  // panel.
  const bool is_followed = token == 0 && row + 2 * kTileRows <= args.first_row + args.num_rows;
  for (int block = 0; block < num_blocks; ++block) {
    if (is_followed) rows[0].prefetch(args, block);
    add_block<Simd>(rows, block, x, static_cast<ptrdiff_t>(block) * kBlock, sums);
  }
  if constexpr (requires { typename Row::Element; })
    if (args.cols % kBlock != 0) add_tail<Simd, Row>(args, row, x, sums);

  if constexpr (num_rows == 4 && requires { &Simd::sums_of_four; }) {
    for (int t = 0; t < num_tokens; ++t) {
      float finished[4];
      Simd::sums_of_four(sums.at[0][t], sums.at[1][t], sums.at[2][t], sums.at[3][t], finished);
      for (int r = 0; r < 4; ++r)
        args.y[(token + t) * args.y_stride + row + r - args.first_row] = rows[r].finish(finished[r]);
    }
    return;
  }
  for (int t = 0; t < num_tokens; ++t)
    for (int r = 0; r < num_rows; ++r)
      args.y[(token + t) * args.y_stride + row + r - args.first_row] =
          rows[r].finish(Simd::sum(sums.at[r][t]));
}

// Processes tokens in tiles of num_tokens, and remaining tokens in tiles of half the size, and so on.
template <class Simd, class Row, int num_rows, int num_tokens>
inline void dot_rows(const DotArgs& args, int row, int token) {
  for (; token + num_tokens <= args.num_tokens; token += num_tokens)
    dot_tile<Simd, Row, num_rows, num_tokens>(args, row, token);
  if constexpr (num_tokens > 1) dot_rows<Simd, Row, num_rows, num_tokens / 2>(args, row, token);
}

template <class Simd, class Row>
inline void dot(const DotArgs& args) {
  int row = args.first_row;
  const int end = args.first_row + args.num_rows;
  for (; row + kTileRows <= end; row += kTileRows)
    dot_rows<Simd, Row, kTileRows, Simd::kTileTokens>(args, row, 0);
  for (; row < end; ++row) dot_rows<Simd, Row, 1, Simd::kTileTokens>(args, row, 0);
}

// Adds the weighted values to 32 elements of `out`, from element `first` on. A row of values that ends within
// these 32 elements is zero-padded.
template <class Simd, class Row, int num_heads>
inline void weigh_block(const WeighArgs& args, int head, int first) {
  const bool is_whole = first + kBlock <= args.head_dim;
  for (int offset = 0; offset < kBlock; offset += 2 * Simd::kLanes) {
    typename Simd::Vec even[num_heads], odd[num_heads];
    float* out = args.out + head * args.out_stride + first + offset / 2;
    for (int h = 0; h < num_heads; ++h) {
      even[h] = Simd::load(out + h * args.out_stride);
      odd[h] = Simd::load(out + h * args.out_stride + kBlock / 2);
    }
    for (int j = 0; j < args.num_positions; ++j) {
      using Element = typename Row::Element;
      const Element* value =
          static_cast<const Element*>(args.values) + static_cast<ptrdiff_t>(j) * args.head_dim + first;
      Element filled[kBlock] = {};
      if (!is_whole) {
        for (int d = first; d < args.head_dim; ++d) filled[d - first] = value[d - first];
        value = filled;
      }
      const auto pair = Row::decode(value + offset);
      for (int h = 0; h < num_heads; ++h) {
        const auto weight =
            Simd::broadcast(args.weights[(head + h) * args.weights_stride + j] * Row::kFactor);
        even[h] = Simd::fma(weight, pair.even, even[h]);
        odd[h] = Simd::fma(weight, pair.odd, odd[h]);
      }
    }
    for (int h = 0; h < num_heads; ++h) {
      Simd::store(out + h * args.out_stride, even[h]);
      Simd::store(out + h * args.out_stride + kBlock / 2, odd[h]);
    }
  }
}

template <class Simd, class Row>
inline void weigh(const WeighArgs& args) {
  constexpr int kTileHeads{4};
  int head = 0;
  for (; head + kTileHeads <= args.num_heads; head += kTileHeads)
    for (int d = 0; d < args.head_dim; d += kBlock) weigh_block<Simd, Row, kTileHeads>(args, head, d);
  for (; head < args.num_heads; ++head)
    for (int d = 0; d < args.head_dim; d += kBlock) weigh_block<Simd, Row, 1>(args, head, d);
}

}  // namespace
}  // namespace nibble::cpu
