// What a checkpoint holds beside its configuration and weights: the vocabulary, the chat template, and what loaders ask for besides.
// generation_config.json says where an answer ends (transformers and vLLM stop nowhere else), tokenizer_config.json and
// special_tokens_map.json name the special tokens for transformers.
#pragma once

#include <vector>

#include "formats/gguf.h"
#include "model/write_checkpoint.h"
#include "setup/model_source.h"

namespace nibble::cli {

std::vector<TextFile> small_files_beside(
    const ModelSource& source);  // of a checkpoint; none of synthetic weights

// Of a GGUF file. It holds those that nibble took into it; of a file of others, which has words for vocabulary and template alone,
// generation_config.json is made: harmony's stop tokens end an answer.
std::vector<TextFile> small_files_in(const Gguf& gguf);

}  // namespace nibble::cli
