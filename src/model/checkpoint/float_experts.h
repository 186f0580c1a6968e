// Experts of a safetensors checkpoint that are not in OpenAI's tensors: BF16, F16 or F32 of a model that was
// expanded from MXFP4 or trained further, and those that another program quantised
// (model/checkpoint/foreign_layers.h). transformers has one tensor for all experts of a layer:
//   mlp.experts.gate_up_proj   [E, H, 2I], transposed; column 2i is gate i, column 2i+1 is up i
//   mlp.experts.down_proj      [E, I, H], transposed
// Tensors [E, 2I, H] and [E, H, I] are read as not transposed. If a matrix is square (down_proj of the
// released models, with H = I), the layer's other matrix shows the order. Other programs write experts as
// separate modules, each with a tensor .weight [rows, cols] (model/checkpoint/expert_modules.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/container.h"
#include "model/checkpoint/foreign_layers.h"
#include "model/stored_experts.h"
#include "model/weights.h"

namespace nibble {

struct FloatExperts {
  StoredExperts experts;
  std::vector<const Tensor*> tensors;  // the tensors that hold them
};

// Finds the experts that `spec`, of kind kCodes or kScales, describes; nullopt if the container lacks them.
// `stored_name`: name of the spec's tensor in this container. Throws InputError if the type or shape of the
// experts does not fit.
std::optional<FloatExperts> find_float_experts(const Container& container, const TensorSpec& spec,
                                               const std::string& stored_name, const ForeignRules& rules);

}  // namespace nibble
