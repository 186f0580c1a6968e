// Recognises checkpoints of other programs whose weights nibble does not read, so that a message names them.
#pragma once

#include <string_view>

#include "model/json_fields.h"

namespace nibble {

// Throws an InputError that names the program and the size of its groups if the config.json describes such a
// quantisation: "this is an MLX checkpoint with 3-bit groups of 64". `config`: the whole object.
void refuse_foreign_quantization(const Fields& config);

// Returns the kind of checkpoint that has tensors of this name: "a GPTQ or AWQ checkpoint". Empty if unknown.
std::string_view foreign_writer(std::string_view tensor);

// The end of a message that refuses such a checkpoint: it says what to do instead.
inline constexpr std::string_view kInsteadOfForeign{
    "nibble does not read its weights. Give the model as released, in BF16 or F16, or as a GGUF file"};

}  // namespace nibble
