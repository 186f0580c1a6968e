// Experts of a safetensors checkpoint that are BF16, F16 or F32. transformers saves such experts after a
// model was expanded from MXFP4, or trained further.
//   mlp.experts.gate_up_proj   [E, H, 2I], transposed; column 2i is gate i, column 2i+1 is up i
//   mlp.experts.down_proj      [E, I, H], transposed
//   mlp.experts.gate_up_projs.N.weight   [2I, H] of expert N, mlp.experts.down_projs.N.weight [H, I]: unsloth
// Tensors with transformers' names but the shapes [E, 2I, H] and [E, H, I] are not transposed. If a matrix is
// square (down_proj of the released models, with H = I), the layer's other matrix shows the order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/container.h"
#include "model/stored_experts.h"
#include "model/weights.h"

namespace nibble {

struct FloatExperts {
  StoredExperts experts;
  std::vector<const Tensor*> tensors;  // the tensors that hold them
};

// Finds the experts of `spec`, of kind kCodes or kScales; nullopt if the container lacks them. `stored_name`:
// the name of the spec's tensor in this container. Throws InputError if their type or their shape does not
// fit.
std::optional<FloatExperts> find_float_experts(const Container& container, const TensorSpec& spec,
                                               const std::string& stored_name);

}  // namespace nibble
