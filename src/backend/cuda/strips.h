// How matrices lie on the device: for the tensor cores, read once and in order.
//
// A strip is 16 rows of the matrix over the whole contraction, cut into tiles of 64 columns; the contraction is padded with
// zeros to whole tiles, the rows to whole strips. A lane of a warp owns, in each tile, rows g and g + 8 (g = lane / 4) of the
// columns 32 G + 8 t .. + 7 of both groups G of 32 (t = lane % 4): so activations stay in natural order, 16 bytes for a lane
// and group. The registers of mma.m16n8k16 number m of a group are, in pairs of columns,
//
//   a0, a2 = row g, columns 8 t + 4 m + {0, 1}, {2, 3}      a1, a3 = the same of row g + 8
//
//   BF16   2,048 bytes: for G = 0, 1: row g of all lanes (16 bytes each), then row g + 8
//   E4M3   1,024 bytes: for G = 0, 1 and m = 0, 1 a lane's word of a0 and a2, then of a1 and a3 (16 bytes of G each). In each half
//          of 16 bits the first of the two has its sign at bit 15 and the rest at 10-4, the second its sign at 11, the rest at 14-12
//          and 3-0: read as bfloat16 each is the value times 2^-120.
//   MXFP4  512 bytes: a lane's 16 bytes are words of (G, m); the 8 codes of a word lie so that a shift and a mask make each
//          of a0..a2, and two of each a3: in each half of 16 bits (the even column is the low one) a0 has its sign at bit 15
//          and its exponent and mantissa at 8-6, a1 at 11 and 4-2, a2 at 5 and, in the other half, 14-12, a3 its sign at 9,
//          the rest at 10, 1 and 0. Read as bfloat16 each is the value times 2^-126, subnormals included, which the tensor
//          cores take as they are. No cut of 16 bits into four equal patterns exists; of those with three this one leaves a
//          fourth code whose bits are together in all but one.
//
// A segment is a run of tiles of one strip that one warp adds up from zero; segments are then added in order. That, and not how
// much else is in the batch, fixes the order of additions. In MXFP4 a segment's scales follow its tiles: a word for tile and g,
// its bytes (row g, G = 0), (row g + 8, G = 0), (row g, G = 1), (row g + 8, G = 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace nibble::cuda {

inline constexpr int kStripRows{16};
inline constexpr int kTileCols{64};
inline constexpr int kMaxSegmentTiles{5};
inline constexpr int kWarps{16};  // of a block that streams

enum class Layout { kBf16, kE4m3, kMxfp4 };

// f(std::integral_constant<Layout, ...>) for kernels that are made for each layout.
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

constexpr int tile_bytes(Layout layout) {
  return layout == Layout::kBf16 ? 2048 : layout == Layout::kE4m3 ? 1024 : 512 + 32;
}

// A matrix, or several of one shape behind each other (experts).
struct Strips {
  const uint8_t* data{nullptr};
  const float* row_scales{nullptr};  // [rows], of E4M3
  Layout layout{Layout::kBf16};
  int rows{0};  // of the matrix, without padding
  int num_strips{0};
  int num_tiles{0};      // of a strip
  int segment_tiles{0};  // the last segment may have fewer
  int num_segments{0};   // of a strip
  int segment_bytes{0}, strip_bytes{0};
  // A warp of a block goes from a segment to the one kWarps further on: by so many segments and bytes, and, where that is beyond
  // the strip's end, back by a strip's segments and on by what is left of its bytes. Said here because a kernel takes these
  // numbers from its arguments at no cost.
  int advance_segments{0}, advance_bytes{0}, wrap_bytes{0};

  constexpr size_t matrix_bytes() const { return size_t{1} * num_strips * strip_bytes; }
};

// 2880 columns are 45 tiles, 4096 are 64. Segments of at most `most_tiles`.
constexpr Strips make_strips(Layout layout, int rows, int cols, int most_tiles = kMaxSegmentTiles) {
  Strips strips;
  strips.layout = layout;
  strips.rows = rows;
  strips.num_strips = (rows + kStripRows - 1) / kStripRows;
  strips.num_tiles = (cols + kTileCols - 1) / kTileCols;
  strips.segment_tiles = most_tiles >= 5 && strips.num_tiles % 5 != 0 ? 4 : most_tiles;
  strips.num_segments = (strips.num_tiles + strips.segment_tiles - 1) / strips.segment_tiles;
  strips.segment_bytes = strips.segment_tiles * tile_bytes(layout);
  strips.strip_bytes = strips.num_tiles * tile_bytes(layout);
  strips.advance_segments = kWarps % strips.num_segments;
  strips.advance_bytes =
      kWarps / strips.num_segments * strips.strip_bytes + strips.advance_segments * strips.segment_bytes;
  strips.wrap_bytes = strips.strip_bytes - strips.num_segments * strips.segment_bytes;
  return strips;
}

// A block's share of a matrix in units (segments, strip by strip): cut anywhere, or at the ends of strips.
struct UnitRange {
  int first, last;
};
constexpr UnitRange share_of(const Strips& strips, bool whole_strips, unsigned block, unsigned num_blocks) {
  const long long count = whole_strips ? strips.num_strips : 1ll * strips.num_strips * strips.num_segments;
  const int scale = whole_strips ? strips.num_segments : 1;
  return {static_cast<int>(count * block / num_blocks) * scale,
          static_cast<int>(count * (block + 1) / num_blocks) * scale};
}
// At which segment of a strip a share begins and so its sum has a second part (kernels.h); num_segments where none does. No more
// blocks than strips: none has two.
constexpr int cut_of(const Strips& strips, int strip, unsigned num_blocks) {
  const long long count = 1ll * strips.num_strips * strips.num_segments,
                  first = 1ll * strip * strips.num_segments;
  const auto block = static_cast<unsigned>(first * num_blocks / count);
  for (unsigned next = block; next <= block + 1; ++next) {
    const long long segment = count * next / num_blocks - first;
    if (segment > 0 && segment < strips.num_segments) return static_cast<int>(segment);
  }
  return strips.num_segments;
}

constexpr int padded_cols(int cols) { return (cols + kTileCols - 1) / kTileCols * kTileCols; }

// Slots of a warp's ring, 85 to 96 KB in a block: more was slower on an H100, and so was less. Before the activations are there
// only kAhead of them are asked for: what is asked for earlier delays them (docs/decisions/0005).
template <Layout layout>
struct RingShape;
template <>
struct RingShape<Layout::kBf16> {
  static constexpr int kSlots{3}, kAhead{2}, kSlotTiles{1};
};
template <>
struct RingShape<Layout::kE4m3> {
  static constexpr int kSlots{3}, kAhead{2}, kSlotTiles{2};
};
template <>
struct RingShape<Layout::kMxfp4> {  // a slot is a segment
  static constexpr int kSlots{2}, kAhead{1}, kSlotTiles{kMaxSegmentTiles};
};

}  // namespace nibble::cuda
