// Opens files of tensors. The first bytes of a file identify its format.
#pragma once

#include <filesystem>

#include "formats/container.h"

namespace nibble {

// Opens one safetensors file. Throws InputError, also for a GGUF file: GGUF holds a complete model in block
// formats that DType lacks (formats/gguf.h).
Container open_container(const std::filesystem::path& file);

// Opens the tensor files of a folder: those in model.safetensors.index.json; else model.safetensors; else, as
// in OpenAI's original/, all *.safetensors directly in it. Refuses file names that lead out of the folder.
Container open_container_folder(const std::filesystem::path& folder);

}  // namespace nibble
