// Rotary positions with YaRN (Peng et al. 2023, "by parts"), half-split: elements i and i + D/2 of a head are a pair.
//
//   y[i]       = x[i] cos - x[i + D/2] sin        cos = c cos(p f_i),  sin = c sin(p f_i)        i < D/2
//   y[i + D/2] = x[i + D/2] cos + x[i] sin
//
//   f_i = (1 - r_i) theta^(-2i/D) + r_i theta^(-2i/D) / factor       r_i = clamp((i - low) / (high - low), 0, 1)
//   low, high = D/2 ln(original_context / (2 pi beta)) / ln theta    for beta_fast, beta_slow
//   c = 0.1 ln(factor) + 1                                           at every position
//
// f_i and p f_i are rounded to float32, as the model was trained with; the rest is float32 because nothing needs more.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/batch_row.h"
#include "core/view.h"
#include "model/config.h"

namespace nibble::cpu {

struct Rope {
  std::vector<float> frequencies;  // f [D/2], radians per position
  float concentration;             // c
};
Rope make_rope(const RopeConfig& config, int head_dim);

// cos and sin of all pairs at the rows' positions, once for all layers and heads of a step.
struct RotationsArgs {
  const Rope& rope;
  std::span<const BatchRow> rows;  // [T]
  View<float, 2> cosines, sines;   // [T, D/2]
};
void rotations(const RotationsArgs& args);

// One head, in place.
void rotate(std::span<float> x, const float* cosines, const float* sines);

}  // namespace nibble::cpu
