// Opens the tokenizer of a model.
#pragma once

#include "setup/model_source.h"
#include "setup/places.h"
#include "text/tokenizer.h"

namespace nibble {

// Opens the vocabulary that --tokenizer names, else the one in the GGUF file or next to the weights.
// Synthetic weights have none: they get the 256 bytes and harmony's control tokens.
Tokenizer open_tokenizer(const ModelSource& source, const Places& places);

}  // namespace nibble
