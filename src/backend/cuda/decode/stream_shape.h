// The shape of a launch that streams weights past a few columns (stream.cuh): warps, rings, columns of a pass and shared memory, worked out
// from the budget, the layout and the widths. None of it changes a bit of a result: a warp adds up whole segments, and which warp, how deep
// its ring is and how many columns share a pass does not matter. Needs no GPU. C++17, for device code.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backend/cuda/chip/budget.h"
#include "backend/cuda/groups.h"
#include "backend/cuda/layout/strips.h"

namespace nibble::cuda {

// A slot of a warp's ring is what is copied at once. One of MXFP4 holds a segment.
constexpr int slot_tiles(Layout layout) {
  return layout == Layout::kBf16 ? 1 : layout == Layout::kE4m3 ? 2 : kMaxSegmentTiles;
}
constexpr int slot_bytes(Layout layout) { return slot_tiles(layout) * tile_bytes(layout); }
inline constexpr int kMaxSlots{4};

// The warps of a CTA, and the slots of each one's ring. Kernels are compiled for each of these.
struct StreamWarps {
  int warps, slots;
};
constexpr int warp_ring_bytes(Layout layout, int slots) {
  return slots * slot_bytes(layout) + 8 * kMaxSlots;
}  // slots, then their barriers
constexpr size_t ring_bytes(Layout layout, StreamWarps of) {
  return static_cast<size_t>(of.warps) * static_cast<size_t>(warp_ring_bytes(layout, of.slots));
}
// Slots that are prefetched before the activations have been requested: more would delay these.
constexpr int slots_ahead(int slots) { return slots - 1; }

// The best first. On an H100 12, 18, 20 and 24 warps were slower than 16, and so were deeper and shallower rings (docs/decisions/0005);
// those with a slot less are a hundredth slower. Where they do not fit beside the activations of several tokens, 8 warps have arithmetic
// enough for the chips that have so little shared memory.
inline constexpr StreamWarps kStreamWarps[]{{16, 3}, {16, 2}, {8, 2}};
constexpr bool is_for(StreamWarps of, Layout layout) { return layout != Layout::kMxfp4 || of.slots == 2; }

// Distance between two tokens' rows of bfloat16 in shared memory. The 32 extra elements put lanes of different tokens into different banks.
constexpr int activation_stride(int cols) { return padded_cols(cols) + 32; }
constexpr size_t activation_bytes(int cols, int columns) {
  return size_t{2} * static_cast<size_t>(columns) * static_cast<size_t>(activation_stride(cols));
}
// The sums of a unit, which is a segment of a strip. A batch is whole strips, so there is room for a strip's segments at least.
constexpr size_t unit_bytes(int columns) { return sizeof(float) * kStripRows * static_cast<size_t>(columns); }

// `rows`: activations of so many columns.
constexpr size_t stream_bytes(StreamWarps of, Layout layout, int cols, int rows, int columns, int units) {
  return ring_bytes(layout, of) + activation_bytes(cols, rows) +
         static_cast<size_t>(units) * unit_bytes(columns);
}
// The least that a pass of so many columns takes, with whatever warps.
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
  int columns;  // tokens, or pairs, of a pass
  size_t shared_bytes;

  int threads() const { return 32 * of.warps; }
  // The strips as a launch of this shape streams them, where so many CTAs share them.
  Strips strips(Strips strips, unsigned num_ctas) const {
    strips.advance_segments = of.warps % strips.num_segments;
    strips.advance_bytes =
        of.warps / strips.num_segments * strips.strip_bytes + strips.advance_segments * strips.segment_bytes;
    strips.wrap_bytes = strips.strip_bytes - strips.num_segments * strips.segment_bytes;
    strips.by_ctas = Divisor(num_ctas);
    strips.bus = memory_bus();
    return strips;
  }
};

// `columns`: how many there are; `cols`: width of the contraction; `units`: the most that a CTA takes. The best warps beside which the
// columns fit are taken; if there are none, as many columns share a pass as fit, and passes are even. The rest goes to the sums of as many
// units as there are. `buffers`: the activations of so many passes lie side by side.
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
