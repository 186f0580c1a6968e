// The matrices of a model that an adapter may change, by their names in files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/adapter/adapter.h"
#include "model/config.h"

namespace nibble {

struct Target {
  AdaptedMatrix matrix;
  int layer;
  uint64_t rows, cols;
  // Rows that a tensor of this name updates: first_row, first_row + row_step, ... (low_rank.h).
  int first_row{0}, row_step{1};
  std::optional<int> expert{};  // set if the name is that of a single expert
};

inline uint64_t num_updated_rows(const Target& target) {
  return target.rows / static_cast<uint64_t>(target.row_step);
}

// Returns the matrix of a module by its name in transformers or unsloth: "model.layers.3.self_attn.q_proj",
// "lm_head", "model.layers.3.mlp.experts.gate_up_projs.5". The name of an expert's module must have the
// expert's number. Returns nullopt if no matrix has this name.
std::optional<Target> target_of_module(std::string_view module, const Config& config);

// Returns the matrix of a GGUF tensor, such as "blk.3.attn_q.weight"; nullopt if no matrix has this name. One
// tensor holds a matrix of all experts of a layer.
std::optional<Target> target_of_gguf(std::string_view tensor, const Config& config);

// Returns all rows of `matrix` as a target; `layer` is 0 for matrices outside the layers.
Target target_of(AdaptedMatrix matrix, int layer, const Config& config);

}  // namespace nibble
