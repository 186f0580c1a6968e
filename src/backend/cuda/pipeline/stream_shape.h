// The shape of a launch that streams weights past a few columns (stream.cuh): warps, rings, columns per pass
// and shared memory, computed from the budget, the layout and the widths. None of it changes a bit of a
// result: a warp adds up whole segments, and it does not matter which warp, how deep its ring is and how many
// columns share a pass. Needs no GPU. C++17, for device code.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/row_limits.h"

namespace nibble::cuda {

// Tiles of a ring slot, which are copied at once. A slot of MXFP4 holds a whole segment.
constexpr int slot_tiles(Layout layout) {
  return layout == Layout::kBf16 ? 1 : layout == Layout::kE4m3 ? 2 : kMaxSegmentTiles;
}
constexpr int slot_bytes(Layout layout) { return slot_tiles(layout) * tile_bytes(layout); }
inline constexpr int kMaxSlots{4};

// The warps of a CTA, and the slots of each warp's ring. Kernels are compiled for each of kStreamWarps.
struct StreamWarps {
  int warps, slots;
};
// A ring is its slots, then their barriers.
constexpr int warp_ring_bytes(Layout layout, int slots) { return slots * slot_bytes(layout) + 8 * kMaxSlots; }
constexpr size_t ring_bytes(Layout layout, StreamWarps of) {
  return static_cast<size_t>(of.warps) * static_cast<size_t>(warp_ring_bytes(layout, of.slots));
}
// Slots that are prefetched before the activations have been requested: more would delay the activations.
constexpr int slots_ahead(int slots) { return slots - 1; }

// Best first. On an H100 12, 18, 20 and 24 warps were slower than 16, and so were deeper and shallower rings
// (docs/decisions/0005); one slot less costs 1 %. If these do not fit next to the activations of several
// tokens, 8 warps are enough: chips with that little shared memory need no more for their arithmetic.
inline constexpr StreamWarps kStreamWarps[]{{16, 3}, {16, 2}, {8, 2}};
constexpr bool is_for(StreamWarps of, Layout layout) { return layout != Layout::kMxfp4 || of.slots == 2; }

// Elements from one token's row to the next in shared memory, in bfloat16. The 32 extra elements put lanes of
// different tokens into different banks.
constexpr int activation_stride(int cols) { return padded_cols(cols) + 32; }
constexpr size_t activation_bytes(int cols, int columns) {
  return size_t{2} * static_cast<size_t>(columns) * static_cast<size_t>(activation_stride(cols));
}
// Bytes of a unit's sums; a unit is a segment of a strip. A batch is whole strips, so there must be room for
// the segments of at least one strip.
constexpr size_t unit_bytes(int columns) { return sizeof(float) * kStripRows * static_cast<size_t>(columns); }

// `rows`: columns whose activations are in shared memory.
constexpr size_t stream_bytes(StreamWarps of, Layout layout, int cols, int rows, int columns, int units) {
  return ring_bytes(layout, of) + activation_bytes(cols, rows) +
         static_cast<size_t>(units) * unit_bytes(columns);
}
// Returns the fewest bytes that a pass of `columns` columns takes, with any number of warps.
constexpr size_t least_stream_bytes(Layout layout, int cols, int columns) {
  const int num_segments = make_strips(layout, kStripRows, cols).num_segments;
  size_t least = 0;
  for (const StreamWarps of : kStreamWarps)
    if (is_for(of, layout)) {
      const size_t bytes = stream_bytes(of, layout, cols, columns, columns, num_segments);
      least = least == 0 || bytes < least ? bytes : least;
    }
  return least;
}

struct StreamShape {
  StreamWarps of;
  int columns;  // tokens, or pairs, per pass
  size_t shared_bytes;

  int threads() const { return 32 * of.warps; }
  // Returns the strips as a launch of this shape streams them, if `num_ctas` CTAs share them.
  Strips strips(Strips strips, unsigned num_ctas) const {
    strips.advance_segments = of.warps % strips.num_segments;
    strips.advance_bytes =
        of.warps / strips.num_segments * strips.strip_bytes + strips.advance_segments * strips.segment_bytes;
    strips.wrap_bytes = strips.strip_bytes - strips.num_segments * strips.segment_bytes;
    strips.by_ctas = Divisor(num_ctas);
    return strips;
  }
};

// `columns`: tokens, or pairs, of the launch; `cols`: width of the contraction; `units`: the most that a CTA
// takes; `buffers`: passes whose activations are in shared memory together. Takes the best warps with which
// all columns fit into one pass, up to kMaxColumns. If none do, a pass has the most columns that fit, and
// columns are divided evenly among passes. The rest of shared memory holds the sums of up to `units` units.
inline StreamShape stream_shape(Budget budget, const Strips& strips, int cols, int columns, int units,
                                int buffers = 1) {
  const Layout layout = strips.layout;
  const size_t room = usable_bytes(budget);
  const int least_units = std::min(units, strips.num_segments);
  int passed = std::min(columns, kMaxColumns);
  StreamWarps of{};
  const auto bytes_of = [&](int num) {
    return stream_bytes(of, layout, cols, buffers * passed, passed, num);
  };
  const auto fits = [&] { return bytes_of(least_units) <= room; };
  for (const StreamWarps candidate : kStreamWarps) {
    if (!is_for(candidate, layout)) continue;
    of = candidate;
    if (fits()) break;
  }
  while (passed > 1 && !fits()) --passed;
  const int passes = (columns + passed - 1) / passed;
  passed = (columns + passes - 1) / passes;
  int kept = least_units;
  while (kept < units && bytes_of(kept + 1) <= room) ++kept;
  return {of, passed, bytes_of(kept)};
}

}  // namespace nibble::cuda
