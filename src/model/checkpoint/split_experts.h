// Reads the biases of experts that are separate modules (model/checkpoint/expert_modules.h), and the name
// that unsloth gives to the router:
//   mlp.experts.gate_up_projs.N.bias [2I], mlp.experts.down_projs.N.bias [H]
//   mlp.experts.N.gate_proj.bias [I], mlp.experts.N.up_proj.bias [I], ...
//   mlp.experts.gate_proj.bias [E, I], ...
//   mlp.router.linear.weight, .bias
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensors/buffer.h"
#include "formats/container.h"
#include "model/weights.h"

namespace nibble {

// Returns the name of the router's tensor: "mlp.router.weight" becomes "mlp.router.linear.weight". Keeps
// other names.
std::string split_name(std::string_view name);

struct SplitBiases {
  Buffer values;  // F32 [E, rows]
  std::vector<const Tensor*> tensors;
};
// Returns the biases of all experts of a layer; nullopt if expert 0 has no such tensor. `spec`: a bias of
// experts. Throws an InputError if another expert's tensor is missing, or has another shape or a type other
// than BF16, F16 and F32.
std::optional<SplitBiases> find_split_biases(const Container& container, const TensorSpec& spec);

}  // namespace nibble
