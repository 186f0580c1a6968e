// Streams weights from memory into the tensor cores: the core of every matrix product of a step.
//
// A CTA takes units, each one segment of one strip, from `first` to `last`; its warps take them in turn. Every warp
// has a ring buffer of its own in shared memory and prefetches into it what its own lanes will read, so that warps
// never wait for each other while they stream. A unit ends in 16 sums for each column (token), which go to
// `partials`; then the CTA adds up the segments of a strip in order.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>

#include "backend/cuda/chip/pace.cuh"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/decode/stream_shape.h"
#include "backend/cuda/layout/fragments.cuh"
#include "backend/cuda/layout/strips.h"
#include "backend/cuda/ptx/barrier.cuh"
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/ptx/registers.cuh"

namespace nibble::cuda {

// Kernels are declared __launch_bounds__(32 * warps, 1): without the 1 the compiler limits them to 64 registers, and a token takes a
// sixth longer (measured on an H100).

// The number of CTAs that share a dense matrix: each gets a unit of work or more.
inline unsigned num_ctas_for(const Target& target, const Strips& weights) {
  return static_cast<unsigned>(std::min(target.num_multiprocessors, weights.num_strips));
}

// A warp's ring buffer in shared memory. A slot's barrier tells when it is full; it is empty when the warp has read it, since nobody else
// does. From sm_90 on one lane has the copy engine fill a whole slot, which leaves the warp free; before, each lane copies its share 16
// bytes at a time.
template <Layout layout, int slots>
class Ring {
 public:
  __device__ Ring(uint8_t* memory, Bus bus) : memory_(shared_address(memory)), pace_(bus) {
    constexpr unsigned kArrivals{kHasBulkCopies ? 1 : 32};
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int slot = 0; slot < slots; ++slot) init_barrier(barrier(slot), kArrivals);
      fence_barrier_init();
    }
    __syncwarp();
  }

  // Prefetches into the slot that was read longest ago; no lane may still be reading it. `num_bytes` is a multiple of
  // 16.
  __device__ void prefetch(const uint8_t* from, int num_bytes) {
    const uint32_t to = address(prefetch_slot_);
    pace_.ask(prefetch_slot_, num_bytes);
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) bulk_copy(to, from, num_bytes, barrier(prefetch_slot_), kEvictFirst);
#else
    for (int at = static_cast<int>(threadIdx.x) % 32 * 16; at < num_bytes; at += 512)
      copy_16(to + at, from + at);
    arrive_after_copies(barrier(prefetch_slot_));
#endif
    prefetch_slot_ = prefetch_slot_ + 1 == slots ? 0 : prefetch_slot_ + 1;
  }

  // Waits until the oldest requested slot has arrived, for all lanes, and returns its shared address.
  __device__ uint32_t next() {
    wait(barrier(slot_), phase_);
    pace_.wait(slot_);
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
  Pace<slots> pace_;
  int prefetch_slot_{0}, slot_{0};
  uint32_t phase_{0};
};

// The activations of a pass: [num_columns] rows in shared memory.
struct Columns {
  const __nv_bfloat16* activations;
  int stride;
  int count;  // columns that hold a token; the others count as zero
};

// A lane's B registers for both products of a group of 32 columns of the contraction.
__device__ inline uint4 activations_of(const Columns& columns, int tile, int group) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  if (g >= columns.count) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(columns.activations + g * columns.stride + tile * kTileCols +
                                         32 * group + 8 * t);
}

// A position among the units of a matrix, which are numbered strip by strip.
struct UnitCursor {
  int unit, segment;

  __device__ UnitCursor(const Strips& strips, int first)
      : unit(first), segment(first % strips.num_segments) {}
  // Moves on by as many units as a CTA has warps; returns the distance in bytes.
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

template <Layout layout, int warps, int slots>
class UnitStream {
 public:
  // Takes units first + warp, first + warp + warps, ... below `last`.
  __device__ UnitStream(const Strips& strips, const uint8_t* matrix, int first, int last, uint8_t* ring)
      : strips_(strips),
        last_(last),
        to_prefetch_(strips, first + static_cast<int>(threadIdx.x) / 32),
        to_multiply_(to_prefetch_),
        from_(matrix + size_t{1} * (to_prefetch_.unit / strips.num_segments) * strips.strip_bytes +
              to_prefetch_.segment * strips.segment_bytes),
        ring_(ring + threadIdx.x / 32 * warp_ring_bytes(layout, slots), strips.bus) {}

  // start_prefetch() prefetches the first weights, which depend on nothing. fill_ring(), called after the activations have been
  // requested, prefetches as many more as the ring holds.
  __device__ void start_prefetch() { prefetch<slots_ahead(slots)>(); }
  __device__ void fill_ring() { prefetch<slots - slots_ahead(slots)>(); }

  // Multiplies all units below `end`, and leaves their sums in partials[(unit - base) * 16 * columns.count + row *
  // columns.count + column].
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    if (columns.count == 1)
      run<true>(end, columns, partials, base);
    else
      run<false>(end, columns, partials, base);
  }

 private:
  // With a single column half of the sums are needed: the other lanes' and registers' columns are empty.
  template <bool is_single>
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    for (; to_multiply_.unit < end; to_multiply_.advance(strips_, warps)) {
      const int num_tiles = to_multiply_.num_tiles(strips_), first_tile = to_multiply_.first_tile(strips_);
      float sums[4]{};
      int tile = 0;
      do {
        const int count = min(kSlotTiles, num_tiles - tile);
        const uint32_t slot = ring_.next();
        const auto add = [&](int i) {
#pragma unroll
          for (int group = 0; group < 2; ++group)
            add_group(group_weights<layout>(slot + i * tile_bytes(layout), group),
                      activations_of(columns, first_tile + tile + i, group), sums);
        };
        if (count == kSlotTiles) {
#pragma unroll
          for (int i = 0; i < kSlotTiles; ++i) add(i);
        } else {
          for (int i = 0; i < count; ++i) add(i);
        }
        __syncwarp();
        prefetch();
        tile += kSlotTiles;
      } while (kSlotTiles < kMaxSegmentTiles && tile < num_tiles);
      store<is_single>(sums, columns.count,
                       partials + (to_multiply_.unit - base) * kStripRows * columns.count);
    }
  }

  template <int count>
  __device__ void prefetch() {
#pragma unroll
    for (int slot = 0; slot < count; ++slot) prefetch();
  }
  // Prefetches the next tiles, if any are left.
  __device__ void prefetch() {
    if (to_prefetch_.unit < last_) {
      const int num_tiles = to_prefetch_.num_tiles(strips_), count = min(kSlotTiles, num_tiles - next_tile_);
      ring_.prefetch(from_ + next_tile_ * tile_bytes(layout), count * tile_bytes(layout));
      next_tile_ += kSlotTiles;
      if (next_tile_ >= num_tiles) {
        next_tile_ = 0;
        from_ += to_prefetch_.advance(strips_, warps);
      }
    }
  }

  template <bool is_single>
  static __device__ void store(const float (&sums)[4], int count, float* to) {
    const int lane = threadIdx.x % 32, g = lane / 4, column = 2 * (lane % 4);
    if (column < count) {
      to[g * count + column] = sums[0];
      to[(g + 8) * count + column] = sums[2];
    }
    if (!is_single && column + 1 < count) {
      to[g * count + column + 1] = sums[1];
      to[(g + 8) * count + column + 1] = sums[3];
    }
  }

  static constexpr int kSlotTiles{slot_tiles(layout)};

  const Strips& strips_;
  int last_;
  UnitCursor to_prefetch_, to_multiply_;  // the unit to prefetch next, and the unit to multiply next
  const uint8_t* from_;                   // where the unit to prefetch lies
  int next_tile_{0};
  Ring<layout, slots> ring_;
};

// A CTA's dynamic shared memory: rings, activations, and as many units' sums as there is room for.
struct CtaMemory {
  uint8_t* ring;
  __nv_bfloat16* activations;
  float* partials;
  int num_partials;  // floats
};
template <Layout layout, int warps, int slots>
__device__ CtaMemory cta_memory(int cols, int columns) {
  extern __shared__ __align__(128) uint8_t memory[];
  const size_t activations = ring_bytes(layout, {warps, slots}),
               partials = activations + activation_bytes(cols, columns);
  return {memory, reinterpret_cast<__nv_bfloat16*>(memory + activations),
          reinterpret_cast<float*>(memory + partials),
          static_cast<int>((dynamic_shared_bytes() - partials) / sizeof(float))};
}

// End of the batch that begins at `from`: whole strips whose sums fit into `capacity` units, at the latest `last`.
__device__ inline int batch_end(int from, int last, int num_segments, int capacity) {
  const int end = (from + capacity) / num_segments * num_segments;
  return min(end, last);
}

// Adds up, in order, those segments of `strip` that lie in [from, end).
__device__ inline float sum_segments(const float* partials, int from, int end, int strip, int num_segments,
                                     int row, int column, int count) {
  const int first = max(from, strip * num_segments), last = min(end, (strip + 1) * num_segments);
  const float* at = partials + ((first - from) * kStripRows + row) * count + column;
  float sum = *at;
#pragma unroll 4
  for (int unit = first + 1; unit < last; ++unit) sum += *(at += kStripRows * count);
  return sum;
}

}  // namespace nibble::cuda
