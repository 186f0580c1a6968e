// Finds matrices that other programs quantised in a safetensors checkpoint (formats/foreign_matrix.h). The
// tensors of a module say which program wrote it:
//   ModelOpt            weight U8, weight_scale F8_E4M3, weight_scale_2 F32: NVFP4
//   compressed-tensors  weight_packed U8, weight_scale F8_E4M3, weight_global_scale F32: NVFP4
//                       weight_packed I32, weight_scale, weight_zero_point if not symmetric: INT4
//                       weight F8_E4M3, weight_scale: FP8 (experts; dense layers are read elsewhere)
//   MLX                 weight U32, scales, biases: 4 or 8 bits; scales U8 and no biases: MXFP4
//   AWQ, GPTQ           qweight I32, qzeros I32, scales; g_idx: GPTQ
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/container.h"
#include "formats/foreign_matrix.h"

namespace nibble {

// Properties of a quantisation that only config.json states: they cannot be seen in the tensors. A field is
// unset if config.json does not describe that quantisation.
struct ForeignRules {
  std::optional<uint32_t> gptq_zero_offset{};  // 1: the file stores zero points minus 1; 0: as they are
};

struct ForeignModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  uint64_t rows, cols;
  uint64_t num_experts{0};  // if not 0, each tensor has this first dimension: one matrix per expert
  // Experts as transformers names them: the tensor `name` has the weights, NAME_weight_scale has their
  // scales.
  bool is_parameter{false};
};

struct FoundMatrices {
  std::vector<ForeignMatrix> matrices;  // one, or one per expert
  std::vector<const Tensor*> tensors;   // the tensors that hold them
};

// Null if no tensor of the module is in a layout above. Throws InputError if one is, but tensors are missing
// or do not fit.
std::optional<FoundMatrices> find_foreign(const Container& container, const ForeignModule& module,
                                          const ForeignRules& rules);

}  // namespace nibble
