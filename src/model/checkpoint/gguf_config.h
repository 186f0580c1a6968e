// Converts between a Config and the metadata of a GGUF file (architecture "gpt-oss").
#pragma once

#include <string>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/config.h"

namespace nibble {

// Checks every value like config.json's. GGUF has no key for the SwiGLU limit (gpt-oss's 7 is assumed) and
// for YaRN's truncation (not used by gpt-oss). Throws InputError.
Config gguf_config(const Gguf& gguf);

// Throws InputError, which begins with `origin`, if GGUF has no key for a value of the configuration.
void add_config(const Config& config, const std::string& origin, GgufMetadata& metadata);

}  // namespace nibble
