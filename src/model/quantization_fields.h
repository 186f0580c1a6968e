// Checks `quantization_config` of a config.json of Hugging Face.
#pragma once

#include "model/json_fields.h"

namespace nibble {

// Accepts "mxfp4" of the released models, and FP8 weights as compressed-tensors, transformers ("fp8") and
// ModelOpt describe them. The tensors show which matrices are quantised. Refuses descriptions by which the
// bytes are not E4M3 codes times a scale per tensor or per row (model/weights.h). Descriptions of activations
// are ignored: nibble does not quantise the inputs of these layers.
void check_quantization(const Fields& config);

}  // namespace nibble
