// Names of experts that are separate modules, for each program that writes them. They follow "mlp.experts.".
// N is the number of the expert.
//   unsloth          gate_up_projs.N, down_projs.N
//   GPTQModel        gate_up.N, down.N
//   llm-compressor   N.gate_proj, N.up_proj, N.down_proj, or the same after a second "experts."
//   MLX              gate_proj, up_proj, down_proj: one module for all experts
// Row i of gate_proj is row 2i of gate_up, and row i of up_proj is row 2i + 1 of gate_up.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/container.h"

namespace nibble {

struct ExpertModules {
  std::vector<std::string> rows;      // a module for each expert, or one for all
  std::vector<std::string> odd_rows;  // of up, if gate and up are separate modules
  bool has_all{false};                // whether one module has all experts
};

// `experts`: "model.layers.0.mlp.experts.gate_up_proj", or down_proj. Null if expert 0 has no tensor with one
// of the endings in any of the namings. Tensors of the other experts may still be missing.
std::optional<ExpertModules> find_expert_modules(const Container& container, std::string_view experts,
                                                 uint64_t count,
                                                 std::initializer_list<std::string_view> endings);

}  // namespace nibble
