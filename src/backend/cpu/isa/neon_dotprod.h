// Block sums by sdot: one instruction multiplies 4 columns of 4 rows by the same 4 activations.
#pragma once

#include "backend/cpu/isa/neon_strip.h"

namespace nibble::cpu {
namespace {

template <class Format>
struct Dotprod : Format {
  static int32x4_t dot(const NeonStrips::Weights& weights, const Q8Block& x) {
    const int8x16_t first = vld1q_s8(x.codes), second = vld1q_s8(x.codes + 16);
    int32x4_t sum = vdupq_n_s32(0);
    sum = vdotq_laneq_s32(sum, weights.words[0], first, 0);
    sum = vdotq_laneq_s32(sum, weights.words[1], first, 1);
    sum = vdotq_laneq_s32(sum, weights.words[2], first, 2);
    sum = vdotq_laneq_s32(sum, weights.words[3], first, 3);
    sum = vdotq_laneq_s32(sum, weights.words[4], second, 0);
    sum = vdotq_laneq_s32(sum, weights.words[5], second, 1);
    sum = vdotq_laneq_s32(sum, weights.words[6], second, 2);
    return vdotq_laneq_s32(sum, weights.words[7], second, 3);
  }
};

}  // namespace
}  // namespace nibble::cpu
