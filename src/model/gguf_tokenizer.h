// The vocabulary of a GGUF file (tokenizer.ggml.*), in the form of a tokenizer.json and from it: what a vocabulary may be is
// checked in one place, text/tokenizer_json.cpp.
//
// nibble reads the kind that gpt-oss has: model "gpt2" (byte-level BPE with merges), pre "gpt-4o" (o200k's split
// expression). A piece that is a token is taken whole, as o200k's makers do; with their vocabulary that makes no difference.
#pragma once

#include <string>
#include <string_view>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"

namespace nibble {

bool has_tokenizer(const Gguf& gguf);
// Throws InputError where the file has no vocabulary, or one of another kind.
std::string tokenizer_json(const Gguf& gguf);

// `json` is a tokenizer.json that nibble reads; ids up to `vocab` without a token are filled. Throws InputError, which
// begins with `origin`, where GGUF has no word for what the vocabulary does.
void add_tokenizer(std::string_view json, const std::string& origin, int vocab, GgufMetadata& metadata);
// Of a model that has none: token ids are all there is.
void add_no_tokenizer(GgufMetadata& metadata);

}  // namespace nibble
