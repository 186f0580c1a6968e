// Rotary positions (RoPE) with YaRN (Peng et al. 2023, "by parts"). Half-split: elements i and i + D/2 of a
// head are a pair.
//   y[i]       = x[i] cos - x[i + D/2] sin        cos = c cos(p f_i),  sin = c sin(p f_i),  i < D/2
//   y[i + D/2] = x[i + D/2] cos + x[i] sin
//   f_i = (1 - r_i) theta^(-2i/D) + r_i theta^(-2i/D) / factor
//   r_i = clamp((i - low) / (high - low), 0, 1)
//   low, high = D/2 ln(original_context / (2 pi beta)) / ln theta    for beta = beta_fast, beta_slow
//   c = 0.1 ln(factor) + 1                                           at every position p
// f_i and p f_i are float32, as in the implementations with which the models were trained and released. The
// rounding is imitated: at position 131071, rounding p f_0 alone turns a pair by up to 0.004 radians.
#pragma once

#include <span>
#include <vector>

#include "core/tensors/view.h"
#include "model/config.h"

namespace nibble::reference {

struct RopeTable {
  std::vector<float> frequencies;  // f [D/2], radians per position
  double concentration;            // c
};
RopeTable make_rope_table(const RopeConfig& config, int head_dim);

struct RotateArgs {
  View<float, 3> x;                // [T, N, D]: N heads per row, rotated in place
  std::span<const int> positions;  // [T]: position of each row
  const RopeTable& table;
};
void rotate(const RotateArgs& args);

}  // namespace nibble::reference
