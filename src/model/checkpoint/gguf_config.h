// Converts between a Config and the metadata of a GGUF file (architecture "gpt-oss").
#pragma once

#include <string>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/config.h"

namespace nibble {

// Checks every value like one of a config.json. GGUF has no key for the SwiGLU limit, which is assumed to be
// gpt-oss's 7, nor for YaRN's truncation, which gpt-oss does not use. Throws InputError.
Config gguf_config(const Gguf& gguf);

// Throws InputError, which begins with `origin`, if GGUF has no key for a value of the configuration.
void add_config(const Config& config, const std::string& origin, GgufMetadata& metadata);

}  // namespace nibble
