// Opens files of tensors. The first bytes of a file identify its format.
#pragma once

#include <filesystem>

#include "formats/container.h"

namespace nibble {

// Opens one safetensors file. Throws InputError, also for a GGUF file: that is a complete model, and DType
// lacks its block formats (formats/gguf.h).
Container open_container(const std::filesystem::path& file, FileAccess access = FileAccess::kMap);

// Opens the tensor files of a folder: those in model.safetensors.index.json, else model.safetensors, else (as
// in OpenAI's original/) every *.safetensors directly in it. Refuses names that lead out of the folder.
Container open_container_folder(const std::filesystem::path& folder, FileAccess access = FileAccess::kMap);

}  // namespace nibble
