// The tokenizer of a model.
#pragma once

#include "setup/model_source.h"
#include "setup/places.h"
#include "text/tokenizer.h"

namespace nibble {

// The vocabulary beside the weights, in a GGUF file, or as --tokenizer says. Synthetic weights have none: they get the 256 bytes
// and harmony's control tokens.
Tokenizer open_tokenizer(const ModelSource& source, const Places& places);

}  // namespace nibble
