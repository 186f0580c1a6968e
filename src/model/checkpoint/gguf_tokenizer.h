// Converts between the vocabulary of a GGUF file (tokenizer.ggml.*) and a tokenizer.json, so that only
// text/tokenizer_json.cpp checks vocabularies. Reads the kind that gpt-oss has: model "gpt2" (byte-level BPE
// with merges) and pre "gpt-4o" (o200k's split expression). The tokenizer.json sets ignore_merges: a piece of
// text that equals a token becomes this token, as in tiktoken. With o200k's vocabulary, merging gives the
// same result.
#pragma once

#include <string>
#include <string_view>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"

namespace nibble {

bool has_tokenizer(const Gguf& gguf);
// Throws InputError if the file has no vocabulary or one of another kind.
std::string tokenizer_json(const Gguf& gguf);

// Adds the vocabulary of `json`, a tokenizer.json. Ids below `vocab` without a token get a placeholder.
// Throws InputError, which begins with `origin`, if GGUF cannot express the vocabulary.
void add_tokenizer(std::string_view json, const std::string& origin, int vocab, GgufMetadata& metadata);
// Marks a model without a vocabulary, which takes only token ids.
void add_no_tokenizer(GgufMetadata& metadata);

}  // namespace nibble
