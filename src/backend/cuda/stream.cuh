// Weights on their way from memory into the tensor cores: what every matrix product of a step is made of.
//
// A block takes units, each one segment of one strip, from `first` to `last`; its warps take them in turn. Every warp has a
// ring of its own in shared memory and copies into it what its own lanes will read, so that warps never wait for each other
// while they stream. A unit ends in 16 sums for each column (token), which go to `partials`; the block then adds up the
// segments of a strip in order.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>

#include "backend/cuda/device.h"
#include "backend/cuda/strips.h"

namespace nibble::cuda {

// Kernels say __launch_bounds__(kThreads, 1): without the 1 the compiler holds them to 64 registers, and a token takes a sixth
// longer (measured on an H100).
inline constexpr int kThreads{32 * kWarps};
inline constexpr int kMaxColumns{8};  // tokens that share a pass over the weights: n of mma.m16n8k16

// Blocks that share a dense matrix, each a unit of work or more.
inline unsigned blocks_for(const Strips& weights) {
  return static_cast<unsigned>(std::min(device_info().num_multiprocessors, weights.num_strips));
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
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The four registers that a word of MXFP4 codes holds: values times 2^-126 (strips.h).
__device__ inline void unpack(uint32_t word, uint32_t (&a)[4]) {
  a[0] = word & 0x81C081C0u;
  a[1] = (word << 4) & 0x81C081C0u;
  a[2] = __funnelshift_l(word, word, 10) & 0x81C081C0u;
  a[3] = ((word << 6) & 0x80C080C0u) | ((word >> 2) & 0x01000100u);
}

// 2^(e - 127) of byte `i` of a word of scales. Of e = 0 it makes 0, not 2^-127.
template <int i>
__device__ inline float scale_of(uint32_t word) {
  return __uint_as_float((i < 3 ? word << (23 - 8 * i) : word >> 1) & 0x7F800000u);
}

// A warp's ring of slots in shared memory. From sm_90 on one lane asks for a slot's bytes at once, and the copy engine counts
// them on a barrier: that leaves the warp free, where many small copies would wait for each other. Before, each lane copies 16 bytes
// at a time.
template <Layout layout>
class Ring {
 public:
  static constexpr int kSlots{RingShape<layout>::kSlots}, kSlotBytes{RingShape<layout>::kSlotBytes};
  static constexpr int kBytes{kSlots * kSlotBytes + 32};  // of a warp: slots, then their barriers
  static_assert(kSlots * 8 <= 32);

  __device__ explicit Ring(uint8_t* memory) : memory_(memory) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier(slot)) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncwarp();
#endif
  }

  // Fills the slot that was read longest ago; no lane reads it any more. Whole multiples of 16 bytes.
  __device__ void ask(const uint8_t* from, int num_bytes) {
    const uint32_t to = address(memory_ + ask_slot_ * kSlotBytes);
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) {
      constexpr uint64_t kEvictFirst{
          0x12F0000000000000};  // read once: activations are to stay in L2, weights are not
      const uint32_t full = barrier(ask_slot_);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(num_bytes)
                   : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
          "[%3], %4;" ::"r"(to),
          "l"(from), "r"(num_bytes), "r"(full), "l"(kEvictFirst)
          : "memory");
    }
#else
    const int lane = threadIdx.x % 32;
    for (int at = lane * 16; at < num_bytes; at += 512)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + at), "l"(from + at));
#endif
    ask_slot_ = ask_slot_ + 1 == kSlots ? 0 : ask_slot_ + 1;
  }
  // As many ask() as slots have been called, with or without bytes, when next() waits for the oldest.
  __device__ void end_ask() {
#if __CUDA_ARCH__ < 900
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  // The oldest slot asked for, once its bytes are there for all lanes.
  __device__ const uint8_t* next() {
#if __CUDA_ARCH__ >= 900
    uint32_t is_there = 0;
    do
      asm volatile(
          "{.reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;}"
          : "=r"(is_there)
          : "r"(barrier(slot_)), "r"(phase_)
          : "memory");
    while (!is_there);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - 1) : "memory");
    __syncwarp();
#endif
    const uint8_t* slot = memory_ + slot_ * kSlotBytes;
    if (++slot_ == kSlots) {
      slot_ = 0;
      phase_ ^= 1;
    }
    return slot;
  }

 private:
  static __device__ uint32_t address(const void* shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  }
  __device__ uint32_t barrier(int slot) const { return address(memory_ + kSlots * kSlotBytes + slot * 8); }

  uint8_t* memory_;
  int ask_slot_{0}, slot_{0};
  uint32_t phase_{0};
};

template <Layout layout>
constexpr size_t ring_bytes() {
  return size_t{kWarps} * Ring<layout>::kBytes;
}

// What of the activations a pass multiplies with: [num_columns] rows in shared memory.
struct Columns {
  const __nv_bfloat16* activations;
  int stride;
  int count;  // columns of tokens; the others are zero
};

// A lane's B registers of both products of a group of 32 columns of the contraction.
__device__ inline uint4 activations_of(const Columns& columns, int tile, int group) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  if (g >= columns.count) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(columns.activations + g * columns.stride + tile * kTileCols +
                                         32 * group + 8 * t);
}

__device__ inline void add_bf16_group(const uint4& upper, const uint4& lower, const uint4& b,
                                      float (&sums)[4]) {
  mma(sums, {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
  mma(sums, {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
}

// Units of a matrix are numbered strip by strip.
struct UnitCursor {
  int unit, segment;

  __device__ UnitCursor(const Strips& strips, int first)
      : unit(first), segment(first % strips.num_segments) {}
  // To the one kWarps further on; returns how many bytes that is.
  __device__ int advance(const Strips& strips) {
    unit += kWarps;
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

template <Layout layout>
class UnitStream {
 public:
  // Units first + warp, + kWarps, ... below last of a matrix in strips.
  __device__ UnitStream(const Strips& strips, const uint8_t* matrix, int first, int last, uint8_t* ring)
      : strips_(strips),
        last_(last),
        asked_(strips, first + static_cast<int>(threadIdx.x) / 32),
        worked_(asked_),
        from_(matrix + size_t{1} * (asked_.unit / strips.num_segments) * strips.strip_bytes +
              asked_.segment * strips.segment_bytes),
        ring_(ring + threadIdx.x / 32 * Ring<layout>::kBytes) {}

  // Asks for the first weights, which needs nothing but them; then, behind the activations, for as many as the ring holds.
  __device__ void start() { ask<RingShape<layout>::kAhead>(); }
  __device__ void fill() { ask<RingShape<layout>::kSlots - RingShape<layout>::kAhead>(); }

  // Works until all units below `end` are done, and leaves their sums in partials[(unit - base) * 16 * columns.count +
  // row * columns.count + column].
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    if (columns.count == 1)
      run<true>(end, columns, partials, base);
    else
      run<false>(end, columns, partials, base);
  }

 private:
  // A single column needs half of the sums: the other lanes' and registers' columns are empty.
  template <bool is_single>
  __device__ void run(int end, const Columns& columns, float* partials, int base) {
    const int lane = threadIdx.x % 32;
    for (; worked_.unit < end; worked_.advance(strips_)) {
      const int num_tiles = worked_.num_tiles(strips_), first_tile = worked_.first_tile(strips_);
      float sums[4]{};
      if constexpr (layout == Layout::kBf16) {
        for (int tile = 0; tile < num_tiles; ++tile) {
          add_bf16_tile(ring_.next() + lane * 16, first_tile + tile, columns, sums);
          __syncwarp();
          ask();
        }
      } else {
        const uint8_t* slot = ring_.next() + lane * 16;
        if (num_tiles == kMaxSegmentTiles) {
#pragma unroll
          for (int tile = 0; tile < kMaxSegmentTiles; ++tile)
            add_mxfp4_tile<is_single>(slot, tile, kMaxSegmentTiles, first_tile + tile, columns, sums);
        } else {
          for (int tile = 0; tile < num_tiles; ++tile)
            add_mxfp4_tile<is_single>(slot, tile, num_tiles, first_tile + tile, columns, sums);
        }
        __syncwarp();
        ask();
      }
      store<is_single>(sums, columns.count, partials + (worked_.unit - base) * kStripRows * columns.count);
    }
  }

  template <int count>
  __device__ void ask() {
#pragma unroll
    for (int slot = 0; slot < count; ++slot) ask();
  }
  // Asks for what comes next, if anything does.
  __device__ void ask() {
    if (asked_.unit < last_) {
      const int num_tiles = asked_.num_tiles(strips_);
      if constexpr (layout == Layout::kBf16) {
        ring_.ask(from_ + asked_tile_ * tile_bytes(layout), tile_bytes(layout));
        if (++asked_tile_ == num_tiles) {
          asked_tile_ = 0;
          from_ += asked_.advance(strips_);
        }
      } else {
        ring_.ask(from_, num_tiles * tile_bytes(layout));
        from_ += asked_.advance(strips_);
      }
    }
    ring_.end_ask();
  }

  static __device__ void add_bf16_tile(const uint8_t* slot, int tile, const Columns& columns,
                                       float (&sums)[4]) {
    const uint4* parts = reinterpret_cast<const uint4*>(slot);
#pragma unroll
    for (int group = 0; group < 2; ++group)
      add_bf16_group(parts[group * 64], parts[group * 64 + 32], activations_of(columns, tile, group), sums);
  }

  template <bool is_single>
  static __device__ void add_mxfp4_tile(const uint8_t* slot, int tile, int num_tiles, int strip_tile,
                                        const Columns& columns, float (&sums)[4]) {
    const int lane = threadIdx.x % 32;
    const uint4 words = *reinterpret_cast<const uint4*>(slot + tile * 512);
    const uint32_t scales =
        reinterpret_cast<const uint32_t*>(slot - lane * 16 + num_tiles * 512)[tile * 8 + lane / 4];
    add_group<is_single>(words.x, words.y, scale_of<0>(scales), scale_of<1>(scales),
                         activations_of(columns, strip_tile, 0), sums);
    add_group<is_single>(words.z, words.w, scale_of<2>(scales), scale_of<3>(scales),
                         activations_of(columns, strip_tile, 1), sums);
  }

  // The scale is applied after the tensor cores, which saves a multiplication for each pair of weights.
  template <bool is_single>
  static __device__ void add_group(uint32_t word0, uint32_t word1, float upper_scale, float lower_scale,
                                   uint4 b, float (&sums)[4]) {
    float c[4]{};
    uint32_t a[4];
    unpack(word0, a);
    mma(c, a, b.x, b.y);
    unpack(word1, a);
    mma(c, a, b.z, b.w);
    sums[0] = fmaf(c[0], upper_scale, sums[0]);
    sums[2] = fmaf(c[2], lower_scale, sums[2]);
    if (is_single) return;
    sums[1] = fmaf(c[1], upper_scale, sums[1]);
    sums[3] = fmaf(c[3], lower_scale, sums[3]);
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

  const Strips& strips_;
  int last_;
  UnitCursor asked_, worked_;  // what is asked for next, and what is worked on next
  const uint8_t* from_;        // the asked unit's bytes
  int asked_tile_{0};
  Ring<layout> ring_;
};

__device__ inline uint32_t dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

// Shared memory of a block: ring, activations, and sums of units, as many as there is room for.
struct BlockMemory {
  uint8_t* ring;
  __nv_bfloat16* activations;
  float* partials;
  int num_partials;  // floats
};
template <Layout layout>
constexpr size_t partials_at(int cols, int columns) {
  return ring_bytes<layout>() + sizeof(__nv_bfloat16) * columns * activation_stride(cols);
}
template <Layout layout>
__device__ BlockMemory block_memory(int cols, int columns) {
  extern __shared__ __align__(128) uint8_t memory[];
  const size_t partials = partials_at<layout>(cols, columns);
  return {memory, reinterpret_cast<__nv_bfloat16*>(memory + ring_bytes<layout>()),
          reinterpret_cast<float*>(memory + partials),
          static_cast<int>((dynamic_shared_bytes() - partials) / sizeof(float))};
}
// Sums of `units` units if they fit; of 48 at least. A block adds up what it has and goes on where there are more.
template <Layout layout>
size_t block_bytes(int cols, int columns, int units) {
  constexpr size_t kMost{216 << 10};
  const size_t before = partials_at<layout>(cols, columns), unit = sizeof(float) * kStripRows * columns;
  const size_t most = before + 48 * unit < kMost ? (kMost - before) / unit : 48;
  return before + unit * std::min<size_t>(most, static_cast<size_t>(units));
}

// Whole strips of [first, last) from `from` on whose sums fit into `capacity` units; the end of the range at the latest.
__device__ inline int batch_end(int from, int last, int num_segments, int capacity) {
  const int end = (from + capacity) / num_segments * num_segments;
  return min(end, last);
}

// The sum over the segments of `strip` that lie in [from, end), in order.
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
