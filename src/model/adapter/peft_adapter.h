// The tensors of a PEFT adapter. For a module MODULE of transformers, after the prefix "base_model.model.":
//   MODULE.lora_A.weight [r, in], MODULE.lora_B.weight [out, r]
//   model.embed_tokens.lora_embedding_A [r, V], .lora_embedding_B [H, r]: the update of [V, H] is (B A)^T
// Experts are two parameters [E, in, out] of one module of transformers (target_parameters). If both have an
// update, the names of one of the two updates have ".base_layer" after "experts":
//   model.layers.N.mlp.experts.lora_A.weight, model.layers.N.mlp.experts.base_layer.lora_A.weight
//   A [E r, in]: row e r + k is row k of expert e      B [out, r E]: column k E + e is column k of expert e
// The shapes show which parameter an update is for. If a module does not say that its parameters are
// transposed, PEFT assumes that the last axis is the input: then A is [E r, out] and B is [in, r E].
#pragma once

#include <vector>

#include "formats/container.h"
#include "model/adapter/adapter.h"
#include "model/adapter/peft_config.h"
#include "model/config.h"

namespace nibble {

// Returns views of the container's tensors. Checks each tensor's name, type and shape, and the rank in the
// configuration. Throws InputError.
std::vector<MatrixUpdate> read_peft_tensors(const Container& container, const PeftConfig& peft,
                                            const Config& config);

}  // namespace nibble
