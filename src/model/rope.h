// YaRN's RoPE frequencies (Peng et al. 2023, "by parts"):
//   f_i = (1 - r_i) theta^(-2i/D) + r_i theta^(-2i/D) / factor
//   r_i = clamp((i - low) / (high - low), 0, 1)
//   low, high = D/2 ln(original_context / (2 pi beta)) / ln theta    for beta = beta_fast, beta_slow
//   c = 0.1 ln(factor) + 1                                           at every position
// The reference has its own implementation of these formulas, so tests can compare the two.
#pragma once

#include <vector>

#include "model/config.h"

namespace nibble {

struct RopeFrequencies {
  std::vector<float> frequencies;  // f [D/2], radians per position; rounded to float32, as in training
  float concentration;             // c
};
RopeFrequencies rope_frequencies(const RopeConfig& config, int head_dim);

}  // namespace nibble
