// Small files of a checkpoint: vocabulary, chat template, generation_config.json (the only source of stop
// tokens for transformers and vLLM), tokenizer_config.json and special_tokens_map.json.
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "model/checkpoint/write_checkpoint.h"
#include "setup/model/model_source.h"

namespace nibble::cli {

// Returns the small files in the checkpoint's folder; none for synthetic weights.
std::vector<TextFile> small_files_beside(const ModelSource& source);

// Returns the small files that a GGUF file contains. A file written by nibble contains all of them. Any other
// file has only the vocabulary and the template, so a generation_config.json with harmony's stop tokens is
// added.
std::vector<TextFile> small_files_in(const Gguf& gguf);

}  // namespace nibble::cli
