// Code shared by the attention kernels: conversion of cache elements, rope, and the softmax of a page.
//
// The softmax's exponentials are 2^(score - R), rounded to bfloat16. R, the reference, is normally the same
// for all pages of a row and head: a whole number kHeadroom above the head's sink (head_reference()). So most
// pages need no maximum, and their sums are added without rescaling. A page gets an R of its own, its largest
// score rounded up, only if an exponential would otherwise be 2 or more. An R far above the scores loses no
// precision: exponentials are floating-point, and values below 2^-126 hardly count next to the sink's
// exponential (about 2^-80).
//
// A chunk is 8 pages, counted from the row's first page. The products of exponentials and values of a chunk
// form one chain of sums, in the order of positions; then the chunks are added in order. A change of R
// multiplies a sum or an exponential by a power of two, which is exact. Decoding knows R of every page of a
// chunk before it multiplies; prefill rescales its sums when a page has a larger R. Decoding and prefill give
// the same bits, unless a number falls below 2^-126, where float32 loses bits.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/attention/args.h"
#include "backend/cuda/input/row_input.h"
#include "backend/cuda/layout/fragments.cuh"
#include "backend/cuda/pipeline/pdl.cuh"
#include "backend/cuda/pipeline/warp_reduce.cuh"
#include "backend/cuda/ptx/exp2.cuh"

namespace nibble::cuda {

inline constexpr int kHeadDim{64};
inline constexpr int kHalf{kHeadDim / 2};
inline constexpr float kLog2E{1.4426950408889634f};
// Number of elements of one head's keys, or of its values, in one page.
inline constexpr int kPageElements{kPagePositions * kHeadDim};

__device__ inline uint32_t pair_of(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// Converts elements of the KV cache: encode() rounds a float to the cache's format; to_bf16() converts 8
// stored elements to bfloat16, without rounding.
template <KvFormat format>
struct KvCodec;
template <>
struct KvCodec<KvFormat::kBf16> {
  using Element = __nv_bfloat16;
  using Eight = uint4;
  static __device__ Element encode(float value) { return __float2bfloat16_rn(value); }
  static __device__ uint4 to_bf16(const Eight& stored) { return stored; }
};
template <>
struct KvCodec<KvFormat::kE4m3> {
  using Element = uint8_t;
  using Eight = uint2;
  static __device__ Element encode(float value) {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
  // Shifts the exponent and mantissa of each code to their places in bfloat16, which gives the value times
  // 2^-120. Then multiplies that number by 2^120.
  static __device__ uint4 to_bf16(const Eight& stored) {
    const auto pair = [](uint32_t codes, uint32_t selector) {
      const uint32_t high = __byte_perm(codes, 0, selector);  // each 16-bit half has a code in its upper byte
      const uint32_t small = (high & 0x80008000u) | ((high >> 4) & 0x07F007F0u);
      const __nv_bfloat162 value =
          __hmul2(reinterpret_cast<const __nv_bfloat162&>(small), __float2bfloat162_rn(0x1p120f));
      return reinterpret_cast<const uint32_t&>(value);
    };
    return {pair(stored.x, 0x1404), pair(stored.x, 0x3424), pair(stored.y, 0x1404), pair(stored.y, 0x3424)};
  }
};

// Rope: rotates elements i and i + kHalf of a head by an angle that is proportional to the row's position,
// and multiplies them by the factor RopeInput::concentration.
struct Rotation {
  float cosine, sine;
  __device__ Rotation(const RopeInput& rope, int i, int position) {
    const float angle = __fmul_rn(static_cast<float>(position), rope.frequencies[i]);
    cosine = rope.concentration * cosf(angle);
    sine = rope.concentration * sinf(angle);
  }
  __device__ float2 operator()(float first, float second) const {
    return {first * cosine - second * sine, second * cosine + first * sine};
  }
};

// Returns a query element as it is multiplied with keys: divided by sqrt(D) = 8, and multiplied by log2(e),
// so that the softmax can use powers of two. The result is rounded only once, after both factors.
__device__ inline __nv_bfloat16 query_of(float rotated) {
  return __float2bfloat16_rn(__fmul_rn(rotated, kLog2E / 8));
}

// A row of q, k and v from qkv(), in which each sum is stored in one or two parts (dense/args.h).
// operator()(i) returns element i, the sum of the element's parts.
struct QkvRow {
  const float* row;
  size_t rest;  // distance in floats from an element's first part to its second; 0 for one part
  __device__ float operator()(int i) const { return rest ? row[i] + row[rest + i] : row[i]; }
};
// Returns one row of args.parts. `args`: AttendArgs or AppendArgs.
template <typename Args>
__device__ QkvRow qkv_row(const Args& args, int row) {
  const int width = (args.num_heads + 2 * args.num_kv_heads) * kHeadDim;
  return {args.parts + size_t{1} * row * width, args.has_rest ? size_t{1} * args.num_tokens * width : 0};
}

// Returns the id of a row's page. `page`: number of the page in the sequence.
__device__ inline uint32_t page_id(const LayerPages& pages, const StepInput& input, const RowInput& row,
                                   int page) {
  const uint32_t first = pages.is_sliding ? row.sliding_pages : row.full_pages;
  return input.page_ids[static_cast<uint32_t>(first + static_cast<uint32_t>(page))];
}

// Returns the address of one head's keys on a page in the KV cache. `page`: number of the page in the row's
// sequence. `args`: AppendArgs or AttendTilesArgs.
template <KvFormat format, typename Args>
__device__ typename KvCodec<format>::Element* page_of(const Args& args, const RowInput& row, int page,
                                                      int kv_head) {
  const uint32_t id = page_id(args.pages, args.input, row, page);
  return static_cast<typename KvCodec<format>::Element*>(args.pages.data) +
         (size_t{2} * id * args.num_kv_heads + kv_head) * kPageElements;
}

// Returns 2^exponent for a whole exponent of at most 0, or 0 if the exponent is below -126, -inf or NaN. The
// exponent is converted to an integer by an addition, which leaves exponent + 127, the biased exponent, in
// the sum's lowest bits. A conversion instruction would run on the unit that is busy with exponentials.
__device__ inline float power_of_two(float exponent) {
  return exponent >= -126 ? __int_as_float(__float_as_int(exponent + (0x1.8p23f + 127)) << 23) : 0.0f;
}

// Returns the softmax reference R that the pages of a head normally use: exponentials are 2^(score - R).
// `sink`: the sink's logit times log2(e). A page whose scores are at most kHeadroom above the sink needs no R
// of its own; a headroom of 80 is 55 in units of logits. A sink below -2^16 counts as -2^16; most pages then
// need an R of their own.
inline constexpr float kHeadroom{80};
__device__ inline float head_reference(float sink) { return fmaxf(ceilf(sink), -0x1p16f) + kHeadroom; }

// Returns the softmax reference of a page that needs one of its own: `largest`, the page's largest score,
// rounded up to a whole number. If all scores are masked (-inf), returns -2^126, which makes every
// exponential 0 instead of NaN.
__device__ inline float reference_of(float largest) { return fmaxf(ceilf(largest), -0x1p126f); }

// Returns the largest score that a lane (g = lane / 4, t = lane % 4) holds of row g (half = 0) or row g + 8
// (half = 1). The lane's scores of the row are scores[n][2 * half] and scores[n][2 * half + 1], for positions
// 8 n + 2 t and 8 n + 2 t + 1. Masked scores are -inf.
template <int half>
__device__ float largest_of_lane(const float (&scores)[4][4]) {
  const auto of_two = [&](int n) { return fmaxf(scores[n][2 * half], scores[n][2 * half + 1]); };
  return fmaxf(fmaxf(of_two(0), of_two(1)), fmaxf(of_two(2), of_two(3)));
}
// A lane's exponentials of a page in bfloat16: the A registers of two mma.m16n8k16, each over 16 positions.
// With g = lane / 4 and t = lane % 4, element [n / 2][n % 2 * 2 + half] holds positions 8 n + 2 t and 8 n + 2
// t + 1 of row g + 8 * half (n = 0 .. 3).
using Exponentials = uint32_t[2][4];

// Computes the exponentials of row g + 8 * half (g = lane / 4), relative to `reference`.
template <int half>
__device__ void take_exponentials(const float (&scores)[4][4], float reference, Exponentials& exponentials) {
#pragma unroll
  for (int n = 0; n < 4; ++n)
    exponentials[n / 2][n % 2 * 2 + half] =
        pair_of(exp2_of(scores[n][2 * half] - reference), exp2_of(scores[n][2 * half + 1] - reference));
}
// Multiplies the exponentials of row g + 8 * half (g = lane / 4) by `power`, a power of two. The product is
// exact.
template <int half>
__device__ void scale(Exponentials& exponentials, float power) {
  // The upper half of a float32 power of two is the same power in bfloat16.
  const __nv_bfloat162 factor = __high2bfloat162(reinterpret_cast<const __nv_bfloat162&>(power));
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    uint32_t& pair = exponentials[n / 2][n % 2 * 2 + half];
    const __nv_bfloat162 scaled = __hmul2(reinterpret_cast<const __nv_bfloat162&>(pair), factor);
    pair = reinterpret_cast<const uint32_t&>(scaled);
  }
}

// An exponential of 2 or more is too large: its page then needs a larger softmax reference. A bfloat16 number
// of at least 2 has the highest bit of its exponent set; kTooLarge is that bit in both numbers of a pair. So
// the bitwise "or" of several pairs shows whether any of their exponentials is too large.
inline constexpr uint32_t kTooLarge{0x40004000};
struct BitwiseOr {
  __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};
template <int half>
__device__ uint32_t bits_of_row(const Exponentials& exponentials) {
  return exponentials[0][half] | exponentials[0][2 + half] | exponentials[1][half] |
         exponentials[1][2 + half];
}
// Returns the softmax reference R of a row on a page. `exponentials`: the exponentials of `scores`, relative
// to `reference`. If an exponential is 2 or more, recomputes all of them relative to the page's own R, and
// returns that R.
template <int half>
__device__ float own_reference(const float (&scores)[4][4], float reference, Exponentials& exponentials) {
  const float largest = reduce_neighbours<4>(largest_of_lane<half>(scores), Maximum());
  const uint32_t bits = reduce_neighbours<4>(bits_of_row<half>(exponentials), BitwiseOr());
  if ((bits & kTooLarge) == 0) return reference;
  const float own = reference_of(largest);
  take_exponentials<half>(scores, own, exponentials);
  return own;
}

// Two ones in bfloat16. A product of exponentials and ones sums the exponentials after rounding, and the same
// rounded exponentials multiply the values. So if one position outweighs all others, the output is exactly
// that position's value.
inline constexpr uint32_t kOnes{0x3F803F80};

// Merges two partial softmaxes: rescales both to the larger of their softmax references, then adds them.
struct Join {
  float reference, before, more;  // before, more: factors of the two softmaxes; one of them is 1
  __device__ Join(float reference_before, float reference_more)
      : reference(fmaxf(reference_before, reference_more)) {
    const float ahead = reference_more - reference_before, factor = power_of_two(-fabsf(ahead));
    before = ahead > 0 ? factor : 1;
    more = ahead > 0 ? 1 : factor;
  }
  __device__ float operator()(float value_before, float value_more) const {
    return fmaf(value_more, more, value_before * before);
  }
};

// Completes a softmax after all pages: adds the sink to the sum of exponentials, and divides the outputs by
// that sum. The division happens once per row and head, in the constructor; operator() multiplies.
class SinkFactor {
 public:
  __device__ SinkFactor(float reference, float sum, float sink_logit) {
    const float largest = fmaxf(reference, sink_logit), factor = exp2_of(reference - largest);
    factor_ = factor / fmaf(sum, factor, exp2_of(sink_logit - largest));
  }
  __device__ __nv_bfloat16 operator()(float out) const { return __float2bfloat16_rn(out * factor_); }

 private:
  float factor_;
};

}  // namespace nibble::cuda
