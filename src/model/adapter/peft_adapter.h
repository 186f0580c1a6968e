// The tensors of a PEFT adapter. For a module MODULE of transformers, after the prefix "base_model.model.":
//   MODULE.lora_A.weight [r, in], MODULE.lora_B.weight [out, r]
//   model.embed_tokens.lora_embedding_A [r, V], .lora_embedding_B [H, r]: the update of [V, H] is (B A)^T
// Experts, of which transformers has two parameters [E, in, out] in one module (target_parameters):
//   model.layers.N.mlp.experts.lora_A.weight, and with ".base_layer" for the other parameter if both have one
//   A [E r, in]: row e r + k is row k of expert e      B [out, r E]: column k E + e is column k of expert e
// The shapes say which parameter it is. PEFT takes the last axis of the parameter for the input if the module
// does not say that it is transposed: then A is [E r, out] and B [in, r E].
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
