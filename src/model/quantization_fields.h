// Checks `quantization_config` of a config.json of Hugging Face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "model/json_fields.h"

namespace nibble {

// Accepts "mxfp4" of the released models; FP8 weights as compressed-tensors, transformers ("fp8") and
// ModelOpt describe them; NVFP4 of compressed-tensors and ModelOpt; 4-bit integers of compressed-tensors, AWQ
// and GPTQ. The tensors show which matrices are quantised and in what groups
// (model/checkpoint/foreign_layers.h). Refuses a description that gives the bytes another meaning.
// Descriptions of activations are ignored: nibble does not quantise the inputs of these layers.
void check_quantization(const Fields& config);

// Returns 1 if a config.json says that GPTQ's zero points are stored minus 1, and 0 if they are stored as
// they are; nullopt if it does not describe GPTQ. `file` has been accepted by read_config().
std::optional<uint32_t> read_gptq_zero_offset(const std::filesystem::path& file);

}  // namespace nibble
