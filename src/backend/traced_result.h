// The result of one operation of a step: shows where two backends, formats or builds differ.
#pragma once

#include <vector>

#include "model/operation.h"

namespace nibble {

// T rows of the step, in float32 whatever the backend computes with; model/config.h has the other letters:
//   kEmbed                 the residual stream [T, H]
//   kQkv                   rotated queries, then keys and values as the cache holds them [T, (Nq + 2 Nkv) D]
//   kAttend                [T, Nq D]
//   kProject               the residual stream after attention [T, H]
//   kRoute                 the weight of each chosen expert, 0 for the others [T, E]
//   kExpertsUp             the residual stream after the experts (kExpertsDown included) [T, H]
//   kUnembed               logits of the output rows [T, V]
struct TracedResult {
  int layer{-1};  // -1: before or after the layers
  Operation operation{};
  std::vector<float> values;
};

}  // namespace nibble
