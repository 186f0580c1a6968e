// The manifest of a model in Ollama's store: JSON in Docker's format, which names the model's files (blobs)
// by their SHA-256.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace nibble {

// Returns the name of the blob with the weights (a GGUF file): "sha256-" and 64 hexadecimal digits. Ignores
// the layers for template, parameters and licence. Throws ContainerError (kBadIndex), also for a model with
// an adapter or with several weight files.
std::string ollama_model_blob(std::string_view manifest, const std::filesystem::path& path);

}  // namespace nibble
