// Chooses warps, ring slots and shared memory for launches that stream weights for few columns (stream.cuh).
// The choice changes no bit of a result: for every choice, one warp sums a whole segment, in the same order.
// This header has no device code, so that tests without a GPU can include it. CUDA code includes it too, so
// it must compile as C++17.
#pragma once

#include <algorithm>
#include <cstddef>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/row_limits.h"

namespace nibble::cuda {

// Returns the number of tiles in a ring slot, which is filled by one copy. A slot of MXFP4 holds a whole
// segment.
constexpr int slot_tiles(Layout layout) {
  return layout == Layout::kBf16 ? 1 : layout == Layout::kE4m3 ? 2 : kMaxSegmentTiles;
}
constexpr int slot_bytes(Layout layout) { return slot_tiles(layout) * tile_bytes(layout); }
inline constexpr int kMaxSlots{4};

// Number of warps of a CTA, and of slots of each warp's ring. Kernels are compiled for the entries of
// kStreamWarps.
struct StreamWarps {
  int warps, slots;
};
// Returns the bytes of a warp's ring: its slots, then their barriers.
constexpr int warp_ring_bytes(Layout layout, int slots) { return slots * slot_bytes(layout) + 8 * kMaxSlots; }
constexpr size_t ring_bytes(Layout layout, StreamWarps of) {
  return static_cast<size_t>(of.warps) * static_cast<size_t>(warp_ring_bytes(layout, of.slots));
}
// Returns how many slots of a ring are prefetched before the activations are requested: all but one, because
// a prefetch of all slots would delay the activations.
constexpr int slots_ahead(int slots) { return slots - 1; }

// Warps per CTA and slots per ring, best first: a launch takes the first entry that fits. On an H100, 16
// warps are 1 % slower with 2 slots than with 3; 12, 18, 20 and 24 warps and other slot counts were slower
// (docs/decisions/0005). {8, 2} is for several tokens on chips with 99 KB of shared memory
// (docs/decisions/0012).
inline constexpr StreamWarps kStreamWarps[]{{16, 3}, {16, 2}, {8, 2}};
// Returns whether kernels for the layout are compiled with these warps and slots. MXFP4 has only kernels with
// 2 slots.
constexpr bool is_for(StreamWarps of, Layout layout) { return layout != Layout::kMxfp4 || of.slots == 2; }

// Returns the number of elements from one token's row of activations to the next in shared memory. The 32
// extra elements (64 bytes) shift each row by 16 banks: lanes that read two adjacent rows at once then access
// different banks.
constexpr int activation_stride(int cols) { return padded_cols(cols) + 32; }
constexpr size_t activation_bytes(int cols, int columns) {
  return size_t{2} * static_cast<size_t>(columns) * static_cast<size_t>(activation_stride(cols));
}
// Returns the bytes of a unit's sums, where a unit is one segment of a strip. A CTA needs room for at least
// the units of one strip.
constexpr size_t unit_bytes(int columns) { return sizeof(float) * kStripRows * static_cast<size_t>(columns); }

// Returns the bytes of a CTA's shared memory, which holds the rings, `rows` rows of activations, and the sums
// of `units` units (segments of strips) for `columns` columns.
constexpr size_t stream_bytes(StreamWarps of, Layout layout, int cols, int rows, int columns, int units) {
  return ring_bytes(layout, of) + activation_bytes(cols, rows) +
         static_cast<size_t>(units) * unit_bytes(columns);
}
// Returns the smallest number of bytes of shared memory with which an entry of kStreamWarps can run a pass of
// `columns` columns.
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
  int columns;  // largest number of columns (tokens, or pairs of a token and an expert) that share a pass
  size_t shared_bytes;

  int threads() const { return 32 * of.warps; }
  // Returns `strips` with the fields set that depend on this shape and on the number of CTAs.
  Strips strips(Strips strips, unsigned num_ctas) const {
    strips.advance_segments = of.warps % strips.num_segments;
    strips.advance_bytes =
        of.warps / strips.num_segments * strips.strip_bytes + strips.advance_segments * strips.segment_bytes;
    strips.wrap_bytes = strips.strip_bytes - strips.num_segments * strips.segment_bytes;
    strips.by_ctas = Divisor(num_ctas);
    return strips;
  }
};

// Returns the shape of a launch for `columns` tokens or pairs. `cols`: columns of the matrix. `units`:
// largest number of units (segments of strips) of a CTA. `buffers`: number of passes whose activations are in
// shared memory at once. Takes the first entry of kStreamWarps with which a pass of min(columns, kMaxColumns)
// columns fits; if no entry does, divides the columns into more passes of equal size. The sums of units get
// the shared memory that is left.
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
