#pragma once

#include "setup/model/model_source.h"
#include "setup/model/places.h"
#include "text/tokenizer.h"

namespace nibble {

// Opens the vocabulary of --tokenizer, or else the one in the GGUF file or next to the weights. With
// synthetic weights it holds the 256 bytes and harmony's control tokens.
Tokenizer open_tokenizer(const ModelSource& source, const Places& places);

// Throws InputError if open_tokenizer() would find no vocabulary, or a GGUF file has one that nibble does not
// read. Does not read a tokenizer.json, which takes a second.
void require_tokenizer(const ModelSource& source, const Places& places);

}  // namespace nibble
