// The layout of matrices on the device: in the order of the tensor cores' registers, so that a product reads
// a matrix once, from beginning to end.
//
// A strip is 16 rows of the matrix over the whole contraction, cut into tiles of 64 columns. Zeros pad the
// contraction to whole tiles and the rows to whole strips. In each tile a lane owns rows g and g + 8
// (g = lane / 4) in columns 32 G + 8 t .. 32 G + 8 t + 7 (t = lane % 4) of both groups G = 0, 1 of 32
// columns. The lane multiplies these weights with 16 contiguous bytes of activations per group. Each group
// takes two mma.m16n8k16 instructions, m = 0 and m = 1. Their A registers hold these pairs of columns:
//
//  a0, a2 = row g, columns 8 t + 4 m + {0, 1}, {2, 3}      a1, a3 = the same columns of row g + 8
//
//  BF16   2,048 bytes per tile: for each G = 0, 1 and m = 0, 1, 16 bytes per lane: a0, a1, a2, a3.
//  E4M3   1,024 bytes: for each G = 0, 1, 16 bytes per lane: for m = 0, 1, a word of a0 and a2, then one of
//         a1 and a3. In each 16-bit half of a word, the code of a0 (or a1) has its sign at bit 15 and the
//         rest at bits 10-4, the code of a2 (or a3) its sign at bit 11 and the rest at bits 14-12 and 3-0.
//         Read as bfloat16 at the place of a0's code, a code is its value times 2^-120.
//  MXFP4  512 bytes of codes, then 32 bytes of scales.
//         Codes: a lane has four words of 8 codes, for (G, m) = (0, 0), (0, 1), (1, 0), (1, 1). Each 16-bit
//         half of a word (low half: the even column) has the signs of a0, a1, a2 at bits 15, 12, 9, and their
//         exponents and mantissas at bits 8-6, 5-3, 2-0. One shift and one mask extract each of these codes.
//         The four bits that are left in a half hold the code of a3 in the other column: sign 11, exponent 10
//         and 14, mantissa 13. A rotation left by 6 and a multiplication by a sum of three powers of two move
//         these bits to 15 and 8-6; no other term of the multiplication overlaps with them. Read as bfloat16,
//         an extracted code is its value times 2^-126, maybe a subnormal number; unpack_mxfp4() multiplies
//         this number by the scale.
//         Scales: a word per g, with bytes (row g, G = 0), (row g + 8, G = 0), (row g, G = 1),
//         (row g + 8, G = 1). A byte is the exponent of a bfloat16: E8M0 plus 126.
//
// A segment is several adjacent tiles of a strip, which one warp sums from zero; then the sums of segments
// are added in order. So the order of additions does not depend on the rest of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/layout/divisor.h"

namespace nibble::cuda {

inline constexpr int kStripRows{16};
inline constexpr int kTileCols{64};
inline constexpr int kMaxSegmentTiles{5};
// Number of tiles in a segment of the router's matrix. A warp can hold this number of tiles in registers
// until activations arrive.
inline constexpr int kRouterSegmentTiles{3};

enum class Layout { kBf16, kE4m3, kMxfp4 };

template <typename F>
void with_layout(Layout layout, const F& f) {
  switch (layout) {
    case Layout::kBf16:
      return f(std::integral_constant<Layout, Layout::kBf16>());
    case Layout::kE4m3:
      return f(std::integral_constant<Layout, Layout::kE4m3>());
    case Layout::kMxfp4:
      return f(std::integral_constant<Layout, Layout::kMxfp4>());
  }
}
template <typename F>
void for_each_layout(const F& f) {
  for (const Layout layout : {Layout::kBf16, Layout::kE4m3, Layout::kMxfp4}) with_layout(layout, f);
}

inline constexpr int kTileCodeBytes{512};  // MXFP4 codes of a tile; the tile's scales follow them
constexpr int tile_bytes(Layout layout) {
  return layout == Layout::kBf16 ? 2048 : layout == Layout::kE4m3 ? 1024 : kTileCodeBytes + 32;
}

// One matrix in strips, or several contiguous matrices of the same shape (experts).
struct Strips {
  const uint8_t* data{nullptr};
  const float* row_scales{nullptr};  // E4M3: [rows], factor of each row's sum; null for other layouts
  Layout layout{Layout::kBf16};
  int rows{0};  // rows of one matrix, without padding
  int num_strips{0};
  int num_tiles{0};      // tiles per strip, each of 64 columns
  int segment_tiles{0};  // tiles per segment; the last segment may have fewer
  int num_segments{0};   // segments per strip
  int segment_bytes{0}, strip_bytes{0};
  Divisor by_strips{}, by_segments{};
  // Distance from a warp's segment to the segment that the warp takes next: advance_segments and
  // advance_bytes, plus wrap_bytes if the next segment is past the end of the strip. The host computes the
  // three numbers (stream_shape.h), because divisions in kernels are slow.
  int advance_segments{0}, advance_bytes{0}, wrap_bytes{0};
  Divisor by_ctas{};  // divides by the number of CTAs that share the matrix

  constexpr size_t matrix_bytes() const { return size_t{1} * num_strips * strip_bytes; }
};

// Returns the description of a matrix of `rows` x `cols`, without data. Segments of 5 tiles are replaced by
// segments of 4 if 5 does not divide the number of tiles: 2880 columns are 45 tiles, or 9 segments of 5, but
// 4096 columns are 64 tiles, or 16 segments of 4.
constexpr Strips make_strips(Layout layout, int rows, int cols, int max_segment_tiles = kMaxSegmentTiles) {
  Strips strips;
  strips.layout = layout;
  strips.rows = rows;
  strips.num_strips = (rows + kStripRows - 1) / kStripRows;
  strips.num_tiles = (cols + kTileCols - 1) / kTileCols;
  strips.segment_tiles = max_segment_tiles >= 5 && strips.num_tiles % 5 != 0 ? 4 : max_segment_tiles;
  strips.num_segments = (strips.num_tiles + strips.segment_tiles - 1) / strips.segment_tiles;
  strips.segment_bytes = strips.segment_tiles * tile_bytes(layout);
  strips.strip_bytes = strips.num_tiles * tile_bytes(layout);
  strips.by_strips = Divisor(static_cast<unsigned>(strips.num_strips));
  strips.by_segments = Divisor(static_cast<unsigned>(strips.num_segments));
  return strips;
}

// Returns the number of floats that hold one sum per segment, column and row: [segments, columns, rows padded
// to whole strips].
constexpr size_t num_segment_sums(const Strips& strips, int num_columns) {
  return size_t{1} * static_cast<size_t>(strips.num_segments) * static_cast<size_t>(num_columns) *
         static_cast<size_t>(strips.num_strips * kStripRows);
}

// Returns the first unit of CTA n if CTAs divide `count` units as evenly as possible. `num`: the number of
// CTAs, as a divisor. The product `count` * n must be below 2^31 (Divisor). The largest matrix meets this
// limit: kMaxVocab rows of 4,096 columns are 2^19 units of 16 rows x 256 columns, and n is a few hundred.
constexpr unsigned part_of(unsigned count, unsigned n, const Divisor& num) { return num.quotient(count * n); }
// The units [first, last) of one CTA. A unit is one segment of one strip; units are numbered strip by strip.
// share_of() returns a CTA's share, which may begin at any segment or, if `whole_strips` is true, only at the
// first segment of a strip.
struct UnitRange {
  int first, last;
};
constexpr UnitRange share_of(const Strips& strips, bool whole_strips, unsigned cta) {
  const auto num_strips = static_cast<unsigned>(strips.num_strips),
             num_segments = static_cast<unsigned>(strips.num_segments);
  const unsigned count = whole_strips ? num_strips : num_strips * num_segments,
                 scale = whole_strips ? num_segments : 1;
  return {static_cast<int>(part_of(count, cta, strips.by_ctas) * scale),
          static_cast<int>(part_of(count, cta + 1, strips.by_ctas) * scale)};
}
// Returns the segment of a strip at which a second CTA takes over, or num_segments if one CTA has the whole
// strip. As CTAs never outnumber strips, no strip has a third CTA: the sums of a strip have at most two parts
// (dense/args.h).
constexpr int cut_of(const Strips& strips, int strip, unsigned num_ctas) {
  const auto count = static_cast<unsigned>(strips.num_strips * strips.num_segments),
             first = static_cast<unsigned>(strip * strips.num_segments);
  const unsigned cta = first * num_ctas / count;
  for (unsigned next = cta; next <= cta + 1; ++next) {
    const int segment = static_cast<int>(count * next / num_ctas) - static_cast<int>(first);
    if (segment > 0 && segment < strips.num_segments) return segment;
  }
  return strips.num_segments;
}

constexpr int padded_cols(int cols) { return (cols + kTileCols - 1) / kTileCols * kTileCols; }

}  // namespace nibble::cuda
