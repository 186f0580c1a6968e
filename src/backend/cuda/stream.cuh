// Weights on their way from memory into the tensor cores: what every matrix product of a step is made of.
//
// A block takes units, each one segment of one strip, from `first` to `last`; its warps take them in turn. Every warp has a
// ring of its own in shared memory and copies into it what its own lanes will read, so that warps never wait for each other
// while they stream. A unit ends in 16 sums for each column (token), which go to `partials`; the block then adds up the
// segments of a strip in order.
#pragma once

#include <cuda_bf16.h>

#include "backend/cuda/strips.h"

namespace nibble::cuda {

inline constexpr int kWarps{16};
inline constexpr int kThreads{32 * kWarps};
inline constexpr int kMaxColumns{8};  // tokens that share a pass over the weights: n of mma.m16n8k16

// Slots of a warp's ring: about 64 KB are asked for ahead by the whole block, all that an H100 needs to be busy.
template <Layout layout>
struct RingShape;
template <>
struct RingShape<Layout::kBf16> {  // a slot is a tile
  static constexpr int kSlots{3}, kSlotBytes{tile_bytes(Layout::kBf16)};
};
template <>
struct RingShape<Layout::kMxfp4> {  // a slot is a segment
  static constexpr int kSlots{2}, kSlotBytes{kMaxSegmentTiles * tile_bytes(Layout::kMxfp4)};
};
template <Layout layout>
constexpr size_t ring_bytes() {
  return size_t{kWarps} * RingShape<layout>::kSlots * RingShape<layout>::kSlotBytes;
}

// Tokens in shared memory, [columns] rows of bfloat16: the stride makes lanes of different tokens meet different banks.
constexpr int activation_stride(int cols) { return padded_cols(cols) + 32; }

// Activations that meet MXFP4 codes (values times 2^-126) carry 2^96, so that nothing underflows; 2^30 is left for the end.
inline constexpr float kMxfp4ActivationScale{0x1p96f};
inline constexpr float kMxfp4SumScale{0x1p30f};
template <Layout layout>
__device__ constexpr float sum_scale() {
  return layout == Layout::kMxfp4 ? kMxfp4SumScale : 1.0f;
}

__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The four registers that a word of MXFP4 codes holds: values times 2^-126 (strips.h).
__device__ inline void unpack(uint32_t word, uint32_t (&a)[4]) {
  a[0] = word & 0x81C081C0u;
  a[1] = (word << 3) & 0x81C081C0u;
  a[2] = (word << 6) & 0x81C081C0u;
  a[3] = ((word << 1) & 0x80008000u) | ((word >> 7) & 0x00400040u) | ((word >> 3) & 0x01800180u);
}

// 2^(e - 127) of byte `i` of a word of scales. Of e = 0 it makes 0, not 2^-127.
template <int i>
__device__ inline float scale_of(uint32_t word) {
  return __uint_as_float((i < 3 ? word << (23 - 8 * i) : word >> 1) & 0x7F800000u);
}

__device__ inline void copy_16_bytes(uint32_t shared_address, const uint8_t* from, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_address), "l"(from),
               "l"(policy));
}

// What of the activations a pass multiplies with: [num_columns] rows in shared memory.
struct Columns {
  const __nv_bfloat16* activations;
  int stride;
  int count;  // columns of tokens; the others are zero
};

template <Layout layout, typename SegmentAt>
class UnitStream {
 public:
  // segment_at(unit): its bytes in the strips. Units first + warp, + kWarps, ... below last.
  __device__ UnitStream(const Strips& strips, SegmentAt segment_at, int first, int last, uint8_t* ring)
      : strips_(strips),
        segment_at_(segment_at),
        last_(last),
        asked_(first + static_cast<int>(threadIdx.x) / 32),
        unit_(asked_),
        ring_(ring + threadIdx.x / 32 * (Shape::kSlots * Shape::kSlotBytes)) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
  }

  // Fills the ring. Reads weights only.
  __device__ void start() {
#pragma unroll
    for (int slot = 0; slot < Shape::kSlots; ++slot) ask();
  }

  // Works until all units below `end` are done, and leaves their sums in partials[(unit - base) * 16 * columns.count +
  // row * columns.count + column].
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    for (; unit_ < end; unit_ += kWarps) {
      const int num_tiles = tiles_of(unit_), first_tile = unit_ % strips_.num_segments * strips_.segment_tiles;
      float sums[4]{};
      if constexpr (layout == Layout::kBf16) {
        for (int tile = 0; tile < num_tiles; ++tile) {
          const uint8_t* slot = next_slot();
          add_bf16_tile(slot, first_tile + tile, columns, sums);
          ask();
        }
      } else {
        const uint8_t* slot = next_slot();
        __syncwarp();  // scales are copied by other lanes than read them
#pragma unroll
        for (int tile = 0; tile < kMaxSegmentTiles; ++tile)
          if (tile < num_tiles) add_mxfp4_tile(slot, tile, num_tiles, first_tile + tile, columns, sums);
        __syncwarp();
        ask();
      }
      store(sums, columns.count, partials + (unit_ - base) * kStripRows * columns.count);
    }
  }

 private:
  using Shape = RingShape<layout>;

  __device__ int tiles_of(int unit) const {
    const int segment = unit % strips_.num_segments;
    return min(strips_.segment_tiles, strips_.num_tiles - segment * strips_.segment_tiles);
  }

  // Asks for what comes next, if anything does, and counts as one group of copies in any case.
  __device__ void ask() {
    if (asked_ < last_) {
      const int lane = threadIdx.x % 32;
      const uint8_t* from = segment_at_(asked_);
      const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(ring_ + ask_slot_ * Shape::kSlotBytes));
      const int num_tiles = tiles_of(asked_);
      if constexpr (layout == Layout::kBf16) {
        from += asked_tile_ * tile_bytes(layout);
#pragma unroll
        for (int part = 0; part < 4; ++part)
          copy_16_bytes(to + part * 512 + lane * 16, from + part * 512 + lane * 16, policy_);
        if (++asked_tile_ == num_tiles) {
          asked_tile_ = 0;
          asked_ += kWarps;
        }
      } else {
        const int num_bytes = num_tiles * tile_bytes(layout);
#pragma unroll
        for (int tile = 0; tile <= kMaxSegmentTiles; ++tile) {
          const int at = tile * 512 + lane * 16;
          if (at < num_bytes) copy_16_bytes(to + at, from + at, policy_);
        }
        asked_ += kWarps;
      }
      ask_slot_ = ask_slot_ + 1 == Shape::kSlots ? 0 : ask_slot_ + 1;
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  // The oldest of the slots asked for, once it is there.
  __device__ const uint8_t* next_slot() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kSlots - 1) : "memory");
    const uint8_t* slot = ring_ + slot_ * Shape::kSlotBytes;
    slot_ = slot_ + 1 == Shape::kSlots ? 0 : slot_ + 1;
    return slot;
  }

  static __device__ uint4 activations(const Columns& columns, int tile, int group) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    if (g >= columns.count) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4*>(columns.activations + g * columns.stride + tile * kTileCols + 32 * group +
                                           8 * t);
  }

  static __device__ void add_bf16_tile(const uint8_t* slot, int tile, const Columns& columns, float (&sums)[4]) {
    const int lane = threadIdx.x % 32;
    const uint4* parts = reinterpret_cast<const uint4*>(slot) + lane;
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const uint4 upper = parts[group * 64], lower = parts[group * 64 + 32];
      const uint4 b = activations(columns, tile, group);
      mma(sums, {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
      mma(sums, {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
    }
  }

  static __device__ void add_mxfp4_tile(const uint8_t* slot, int tile, int num_tiles, int strip_tile,
                                        const Columns& columns, float (&sums)[4]) {
    const int lane = threadIdx.x % 32;
    const uint4 words = reinterpret_cast<const uint4*>(slot + tile * 512)[lane];
    const uint32_t scales = reinterpret_cast<const uint32_t*>(slot + num_tiles * 512)[tile * 8 + lane / 4];
    add_group(words.x, words.y, scale_of<0>(scales), scale_of<1>(scales), activations(columns, strip_tile, 0), sums);
    add_group(words.z, words.w, scale_of<2>(scales), scale_of<3>(scales), activations(columns, strip_tile, 1), sums);
  }

  // The scale is applied after the tensor cores, which saves a multiplication for each pair of weights.
  static __device__ void add_group(uint32_t word0, uint32_t word1, float upper_scale, float lower_scale, uint4 b,
                                   float (&sums)[4]) {
    float c[4]{};
    uint32_t a[4];
    unpack(word0, a);
    mma(c, a, b.x, b.y);
    unpack(word1, a);
    mma(c, a, b.z, b.w);
    sums[0] = fmaf(c[0], upper_scale, sums[0]);
    sums[1] = fmaf(c[1], upper_scale, sums[1]);
    sums[2] = fmaf(c[2], lower_scale, sums[2]);
    sums[3] = fmaf(c[3], lower_scale, sums[3]);
  }

  static __device__ void store(const float (&sums)[4], int count, float* to) {
    const int lane = threadIdx.x % 32, g = lane / 4, column = 2 * (lane % 4);
    if (column < count) {
      to[g * count + column] = sums[0];
      to[(g + 8) * count + column] = sums[2];
    }
    if (column + 1 < count) {
      to[g * count + column + 1] = sums[1];
      to[(g + 8) * count + column + 1] = sums[3];
    }
  }

  const Strips& strips_;
  SegmentAt segment_at_;
  int last_;
  int asked_, asked_tile_{0}, ask_slot_{0};  // what is asked for next, and into which slot it goes
  int unit_, slot_{0};                       // what is worked on next
  uint8_t* ring_;
  uint64_t policy_;
};

// Whole strips of [first, last) from `from` on whose sums fit into `capacity` units; the end of the range at the latest.
__device__ inline int batch_end(int from, int last, int num_segments, int capacity) {
  const int end = (from + capacity) / num_segments * num_segments;
  return min(end, last);
}

// The sum over the segments of `strip` that lie in [from, end), in order.
__device__ inline float sum_segments(const float* partials, int from, int end, int strip, int num_segments, int row,
                                     int column, int count) {
  const int first = max(from, strip * num_segments), last = min(end, (strip + 1) * num_segments);
  const float* at = partials + ((first - from) * kStripRows + row) * count + column;
  float sum = *at;
  for (int unit = first + 1; unit < last; ++unit) sum += *(at += kStripRows * count);
  return sum;
}

}  // namespace nibble::cuda
