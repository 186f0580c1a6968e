// The small files of a checkpoint: the vocabulary, the chat template, and others that loaders ask for. generation_config.json says where an
// answer ends (transformers and vLLM stop nowhere else), tokenizer_config.json and special_tokens_map.json name the special tokens for
// transformers.
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "model/checkpoint/write_checkpoint.h"
#include "setup/model_source.h"

namespace nibble::cli {

// Those of a checkpoint; synthetic weights have none.
std::vector<TextFile> small_files_beside(const ModelSource& source);

// Those of a GGUF file. A file that nibble converted holds all of them. Others hold vocabulary and template only: for these
// generation_config.json is made, in which harmony's stop tokens end an answer.
std::vector<TextFile> small_files_in(const Gguf& gguf);

}  // namespace nibble::cli
