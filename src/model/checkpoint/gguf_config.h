// Converts between a Config and the metadata of a GGUF file (architecture "gpt-oss").
#pragma once

#include <string>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/config.h"

namespace nibble {

// Checks every value as it checks a config.json's. GGUF has no key for SwiGLU's limit, which is taken to be gpt-oss's
// 7, nor for YaRN's truncation, which gpt-oss does not use. Throws InputError.
Config gguf_config(const Gguf& gguf);

// Throws InputError, which begins with `origin`, where GGUF has no key for a value of the configuration.
void add_config(const Config& config, const std::string& origin, GgufMetadata& metadata);

}  // namespace nibble
