// The small files of a checkpoint: the vocabulary, the chat template, and others that loaders need.
// generation_config.json lists the stop tokens (transformers and vLLM use no others); tokenizer_config.json
// and special_tokens_map.json name the special tokens for transformers.
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "model/checkpoint/write_checkpoint.h"
#include "setup/model_source.h"

namespace nibble::cli {

// Returns the small files in the folder of a checkpoint; none for synthetic weights.
std::vector<TextFile> small_files_beside(const ModelSource& source);

// Returns the small files stored in a GGUF file. A GGUF file written by nibble contains all of them. Others
// contain only vocabulary and template; for these, makes a generation_config.json with harmony's stop tokens.
std::vector<TextFile> small_files_in(const Gguf& gguf);

}  // namespace nibble::cli
