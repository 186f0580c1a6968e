// Streams weights from memory into the tensor cores, for all matrix products of few tokens. A unit is one
// segment of one strip. A CTA computes a range of units, which its warps take in turn. Each warp has its own
// ring buffer in shared memory for the weights that its lanes read, so warps do not wait for each other. A
// unit yields 16 sums per column (token) in `partials`; then the CTA adds up the units of each strip.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <type_traits>

#include "backend/cuda/chip/target.h"
#include "backend/cuda/layout/fragments.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/stream_shape.h"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/launch.cuh"
#include "backend/cuda/ptx/load.cuh"
#include "backend/cuda/ptx/mma.cuh"

namespace nibble::cuda {

// Kernels declare __launch_bounds__(32 * warps, 1). Without the 1, the compiler limits threads to 64
// registers, and a step of one token takes a sixth longer (measured on an H100).

// Returns the shape of a launch with one CTA per SM.
inline LaunchShape alone(const StreamShape& shape, const dim3& grid) {
  return {grid, shape.threads(), shape.shared_bytes, /*cluster_ctas=*/1, /*is_alone=*/true};
}

// A warp's ring buffer. A slot's barrier signals that the slot is full; the slot is empty once the warp, its
// only reader, has read it. From sm_90 on, one lane starts one bulk copy per slot; on older GPUs all lanes
// copy.
template <Layout layout, int slots>
class Ring {
 public:
  struct Later {};  // selects the constructor that leaves init() to the caller

  __device__ Ring(uint8_t* memory, unsigned lane) : Ring(memory, lane, Later()) { init(); }
  __device__ Ring(uint8_t* memory, unsigned lane, Later) : memory_(shared_address(memory)), lane_(lane) {}
  __device__ void init() const {  // the whole warp calls it once
    constexpr unsigned kArrivals{kHasBulkCopies ? 1 : 32};
    if (lane_ == 0) {
#pragma unroll
      for (int slot = 0; slot < slots; ++slot) init_barrier(barrier(slot), kArrivals);
      fence_barrier_init();
    }
    __syncwarp();
  }

  // Starts to refill the slot that was read longest ago. No lane may still read that slot. `num_bytes`: a
  // multiple of 16.
  __device__ void prefetch(const uint8_t* from, int num_bytes) {
    const uint32_t to = address(prefetch_slot_);
    if constexpr (kHasBulkCopies) {
      if (lane_ == 0) {
        arrive_and_expect(barrier(prefetch_slot_), num_bytes);
        bulk_copy(to, from, num_bytes, barrier(prefetch_slot_), kEvictFirst);
      }
    } else {
      for (int at = static_cast<int>(lane_) * 16; at < num_bytes; at += 512) copy_16(to + at, from + at);
      arrive_after_copies(barrier(prefetch_slot_));
    }
    prefetch_slot_ = prefetch_slot_ + 1 == slots ? 0 : prefetch_slot_ + 1;
  }

  // Waits until the next slot, in the order of the calls of prefetch(), is full. Returns its shared-memory
  // address. All lanes must call it.
  __device__ uint32_t next() {
    wait(barrier(slot_), phase_);
    const uint32_t slot = address(slot_);
    if (++slot_ == slots) {
      slot_ = 0;
      phase_ ^= 1;
    }
    return slot;
  }

 private:
  static_assert(slots <= kMaxSlots);
  __device__ uint32_t address(int slot) const { return memory_ + slot * slot_bytes(layout); }
  __device__ uint32_t barrier(int slot) const { return memory_ + slots * slot_bytes(layout) + slot * 8; }

  const uint32_t memory_;
  const unsigned lane_;
  int prefetch_slot_{0}, slot_{0};
  uint32_t phase_{0};
};

template <Layout layout, int slots, typename... Later>
__device__ Ring<layout, slots> ring_of_warp(uint8_t* rings, Later... later) {
  const unsigned thread = thread_of_cta();
  return {rings + thread / 32 * warp_ring_bytes(layout, slots), thread % 32, later...};
}

// Activations of a pass: rows in shared memory, `stride` elements apart. `count`: columns of the pass that
// hold a token.
struct Columns {
  const __nv_bfloat16* activations;
  int stride, count;
  int row;  // index of the row of `activations` that this lane loads

  __device__ Columns(const __nv_bfloat16* activations, int stride, int count, int row)
      : activations(activations), stride(stride), count(count), row(row) {}
  // This constructor lets column n of the pass read row n of the activations.
  __device__ Columns(const __nv_bfloat16* activations, int stride, int count)
      : Columns(activations, stride, count, of_lane(count)) {}
  // Returns the column that a lane reads: lane / 4, or the last column if lane / 4 is past the end. Products
  // of columns past the end affect no other column, and their sums are not used.
  static __device__ int of_lane(int count) { return min(static_cast<int>(threadIdx.x) % 32 / 4, count - 1); }
};

class LaneColumn {
 public:
  __device__ LaneColumn(const Columns& columns, int lane)
      : address_(shared_address(columns.activations + columns.row * columns.stride + lane % 4 * 8)) {}
  // Returns the lane's B registers for a group: 32 columns of the contraction, which take two mma.m16n8k16.
  __device__ uint4 activations(int tile, int group) const {
    return load_shared_16(address_ +
                          (tile * kTileCols + 32 * group) * static_cast<int>(sizeof(__nv_bfloat16)));
  }

 private:
  const uint32_t address_;
};

// A position among the units (segments) of one matrix, or of several matrices of equal shape. Units are
// numbered strip by strip.
struct UnitCursor {
  int unit, segment;

  __device__ UnitCursor(const Strips& strips, int first)
      : unit(first), segment(static_cast<int>(strips.by_segments.remainder(static_cast<unsigned>(first)))) {}
  // Moves to the warp's next unit, and returns the distance to that unit in bytes.
  __device__ int advance(const Strips& strips, int warps) {
    unit += warps;
    segment += strips.advance_segments;
    if (segment < strips.num_segments) return strips.advance_bytes;
    segment -= strips.num_segments;
    return strips.advance_bytes + strips.wrap_bytes;
  }
  __device__ int first_tile(const Strips& strips) const { return segment * strips.segment_tiles; }
  __device__ int num_tiles(const Strips& strips) const {
    return min(strips.segment_tiles, strips.num_tiles - first_tile(strips));
  }
};

// The parameter `Matrices` of UnitStream is a function that returns the address of matrix number i. OneMatrix
// is such a function for a single matrix. With kMayEnd, the function also returns the matrix's number of
// strips; the first matrix with fewer strips than the others then ends the range of units (dealt.cuh).
struct OneMatrix {
  static constexpr bool kMayEnd{false};
  const uint8_t* data;
  __device__ const uint8_t* operator()(int) const { return data; }
};

// Streams the units (segments of strips) of a CTA's range, and multiplies them. `is_short`: whether each warp
// has only one or two units. If so, the tiles of a slot are multiplied in a loop, because unrolled code that
// runs only once takes longer to fetch. With unrolled code, one token took 1,402 us instead of 1,387 us with
// MXFP4 weights on an H200 (docs/decisions/0016).
template <Layout layout, int warps, int slots, typename Matrices = OneMatrix, bool is_short = false>
class UnitStream {
 public:
  // Warp number w of the CTA's W warps takes units first + w, first + w + W, and so on, below `last`.
  __device__ UnitStream(const Strips& strips, const Matrices& matrices, int first, int last,
                        const Ring<layout, slots>& ring)
      : strips_(strips),
        matrices_(matrices),
        thread_(thread_of_cta()),
        last_(last),
        to_prefetch_(strips, first + static_cast<int>(thread_ / 32)),
        to_multiply_(to_prefetch_),
        ring_(ring) {
    find_matrix();
  }
  __device__ UnitStream(const Strips& strips, const Matrices& matrices, int first, int last, uint8_t* rings)
      : UnitStream(strips, matrices, first, last, ring_of_warp<layout, slots>(rings)) {}

  // start_prefetch() prefetches the first `ahead` slots of the ring. Call fill_ring() after the activations
  // were requested: it prefetches the remaining slots.
  template <int ahead = slots_ahead(slots)>
  __device__ void start_prefetch() {
    prefetch<ahead>();
  }
  template <int ahead = slots_ahead(slots)>
  __device__ void fill_ring() {
    prefetch<slots - ahead>();
  }

  // Multiplies the warp's units below `end` that earlier calls have not multiplied. The sums go to
  // partials[(unit - base) * 16 * columns.count + row * columns.count + column].
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    if (columns.count == 1)
      run<true>(end, columns, partials, base);
    else
      run<false>(end, columns, partials, base);
  }

 private:
  // `is_single`: whether there is only one column. If so, only every fourth lane holds sums of this column,
  // in two of its four registers.
  template <bool is_single>
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    const int lane = static_cast<int>(thread_ % 32), column = 2 * (lane % 4),
              sums_of_unit = kStripRows * columns.count;
    const LaneColumn lane_column(columns, lane);
    float* to = partials + (to_multiply_.unit - base) * sums_of_unit + lane / 4 * columns.count + column;
    for (; to_multiply_.unit < (Matrices::kMayEnd ? min(end, last_) : end);
         to_multiply_.advance(strips_, warps), to += warps * sums_of_unit) {
      const int num_tiles = to_multiply_.num_tiles(strips_), first_tile = to_multiply_.first_tile(strips_);
      float sums[4]{};
      int tile = 0;
      do {
        const int count = min(kSlotTiles, num_tiles - tile);
        const uint32_t slot = ring_.next();
        const auto add = [&](int i) {
          const TileWords<layout> words(slot + i * tile_bytes(layout), lane);
#pragma unroll
          for (int group = 0; group < 2; ++group) {
            uint32_t a[2][4];
            words.unpack(group, a);
            const uint4 b = lane_column.activations(first_tile + tile + i, group);
            mma_bf16(sums, a[0], b.x, b.y);
            mma_bf16(sums, a[1], b.z, b.w);
          }
        };
        if constexpr (is_short) {
#pragma unroll 1
          for (int i = 0; i < count; ++i) add(i);
        } else if (count == kSlotTiles) {
#pragma unroll
          for (int i = 0; i < kSlotTiles; ++i) add(i);
        } else {
          for (int i = 0; i < count; ++i) add(i);
        }
        __syncwarp();
        prefetch();
        tile += kSlotTiles;
      } while (kSlotTiles < kMaxSegmentTiles && tile < num_tiles);
      if (is_single ? column == 0 : column < columns.count) {
        to[0] = sums[0];
        to[8 * columns.count] = sums[2];
      }
      if (!is_single && column + 1 < columns.count) {
        to[1] = sums[1];
        to[8 * columns.count + 1] = sums[3];
      }
    }
  }

  template <int count>
  __device__ void prefetch() {
#pragma unroll
    for (int slot = 0; slot < count; ++slot) prefetch();
  }
  __device__ void prefetch() {
    if (to_prefetch_.unit < last_) {
      const int num_tiles = to_prefetch_.num_tiles(strips_), count = min(kSlotTiles, num_tiles - next_tile_);
      ring_.prefetch(from_ + next_tile_ * tile_bytes(layout), count * tile_bytes(layout));
      if constexpr (kSlotTiles < kMaxSegmentTiles) {
        next_tile_ += kSlotTiles;
        if (next_tile_ < num_tiles) return;
        next_tile_ = 0;
      }
      from_ += to_prefetch_.advance(strips_, warps);
      if (kHasSeveral && to_prefetch_.unit >= matrix_end_) find_matrix();
    }
  }
  __device__ void find_matrix() {
    const auto strip = static_cast<int>(
        strips_.by_segments.quotient(static_cast<unsigned>(min(to_prefetch_.unit, max(last_ - 1, 0)))));
    const int index =
        kHasSeveral ? static_cast<int>(strips_.by_strips.quotient(static_cast<unsigned>(strip))) : 0;
    matrix_end_ = (index + 1) * strips_.num_strips * strips_.num_segments;
    const uint8_t* matrix = nullptr;
    if constexpr (Matrices::kMayEnd) {
      const auto found = matrices_(index);
      matrix = found.data;
      if (found.num_strips < strips_.num_strips)
        last_ = (index * strips_.num_strips + found.num_strips) * strips_.num_segments;
    } else {
      matrix = matrices_(index);
    }
    from_ = matrix + size_t{1} * (strip - index * strips_.num_strips) * strips_.strip_bytes +
            to_prefetch_.segment * strips_.segment_bytes;
  }

  static constexpr int kSlotTiles{slot_tiles(layout)};
  static constexpr bool kHasSeveral{!std::is_same_v<Matrices, OneMatrix>};

  const Strips& strips_;
  const Matrices matrices_;
  const unsigned thread_;                 // index in the CTA; a member, because reading threadIdx is slow
  int last_;                              // end of the range of units; find_matrix() can lower it (kMayEnd)
  UnitCursor to_prefetch_, to_multiply_;  // the next unit to prefetch, and the next unit to multiply
  const uint8_t* from_{nullptr};          // global address of the unit to prefetch
  int matrix_end_{0};                     // index of the first unit of the matrix after this one
  int next_tile_{0};
  Ring<layout, slots> ring_;
};

// Returns i / count. Most passes have one column and need no division.
__device__ inline int divide(int i, int count) { return count == 1 ? i : i / count; }

// A CTA's dynamic shared memory: the rings, then the activations; the sums of units (segments of strips;
// num_partials floats) fill the rest.
struct CtaMemory {
  uint8_t* ring;
  __nv_bfloat16* activations;
  float* partials;
  int num_partials;
};
template <Layout layout, int warps, int slots>
__device__ CtaMemory cta_memory(int cols, int columns) {
  NIBBLE_DYNAMIC_SHARED(__align__(128) uint8_t, memory);
  const size_t activations = ring_bytes(layout, {warps, slots}),
               partials = activations + activation_bytes(cols, columns);
  return {memory, reinterpret_cast<__nv_bfloat16*>(memory + activations),
          reinterpret_cast<float*>(memory + partials),
          static_cast<int>((dynamic_shared_bytes() - partials) / sizeof(float))};
}

// Returns the end of the batch of units that begins at `from`. Shared memory has room for the sums of
// `capacity` units. If the units up to `last` fit, the batch ends at `last`; otherwise it ends with the last
// whole strip that fits.
__device__ inline int batch_end(int from, int last, int num_segments, int capacity) {
  return last - from <= capacity ? last : (from + capacity) / num_segments * num_segments;
}

// The sums of units (segments of strips) [from, end), as UnitStream::run() leaves them in shared memory.
struct BatchSums {
  const float* partials;
  int from, end, num_segments, num_columns;

  // Adds up, in order, the sums of those segments of `strip` that are among the units [from, end).
  __device__ float sum_segments(int strip, int row, int column) const {
    const int first = max(from, strip * num_segments), last = min(end, (strip + 1) * num_segments);
    const float* at = partials + ((first - from) * kStripRows + row) * num_columns + column;
    float sum = *at;
#pragma unroll 4
    for (int unit = first + 1; unit < last; ++unit) sum += *(at += kStripRows * num_columns);
    return sum;
  }
};

}  // namespace nibble::cuda
