// The configuration of a model as a GGUF file's metadata say it (architecture "gpt-oss").
#pragma once

#include <string>

#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "model/config.h"

namespace nibble {

// Every value is checked as one of a config.json is. The metadata have no word for the clamp of SwiGLU, which is gpt-oss's
// 7, nor for YaRN's truncation, which gpt-oss does without. Throws InputError.
Config gguf_config(const Gguf& gguf);

// Throws InputError, which begins with `origin`, where GGUF has no word for what the configuration says.
void add_config(const Config& config, const std::string& origin, GgufMetadata& metadata);

}  // namespace nibble
