// Converts between a Config and the metadata of a GGUF file (architecture "gpt-oss"; Ollama's own files have
// "gptoss" and other names).
#pragma once

#include <string>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/config.h"

namespace nibble {

bool is_of_ollama(const Gguf& gguf);  // whether Ollama's converter wrote the file

// Checks values as parse_config() does. GGUF has no keys for the SwiGLU limit and for YaRN's truncation: the
// limit is 7 and truncation is off, as in gpt-oss. Throws InputError.
Config gguf_config(const Gguf& gguf);

// Throws InputError, which begins with `origin`, if GGUF has no key for a value of the configuration.
void add_config(const Config& config, const std::string& origin, GgufMetadata& metadata);

}  // namespace nibble
