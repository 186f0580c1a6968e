// Small files of a checkpoint: vocabulary, chat template, generation_config.json (stop tokens; transformers
// and vLLM use no others), tokenizer_config.json, special_tokens_map.json (special tokens).
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "model/checkpoint/write_checkpoint.h"
#include "setup/model_source.h"

namespace nibble::cli {

// Returns the small files in the checkpoint's folder; none for synthetic weights.
std::vector<TextFile> small_files_beside(const ModelSource& source);

// Returns the small files in a GGUF file. nibble's GGUF files contain all; others only vocabulary and
// template, for which a generation_config.json with harmony's stop tokens is made.
std::vector<TextFile> small_files_in(const Gguf& gguf);

}  // namespace nibble::cli
