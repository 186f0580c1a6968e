// Lists the models on this machine: bundled ones, those in the stores of other programs, and those in
// folders.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "setup/model/places.h"

namespace nibble {

struct InstalledModel {
  std::string name;            // MODEL argument that opens it
  std::string_view place;      // "bundled", "Hugging Face", "LM Studio", "Ollama", "folder"
  std::filesystem::path path;  // a folder with safetensors files, or a GGUF file; empty if `fault` says why
  std::string fault{};         // one line; empty if the files were found
};

// Returns the models found, sorted by place and name. Reads no weights: a model may be damaged or of another
// architecture.
std::vector<InstalledModel> installed_models(const Places& places);

// Returns the models of a folder and of the folders in it. Throws InputError if `folder` is not a folder.
std::vector<InstalledModel> models_in(const std::filesystem::path& folder);

// Returns the size of the weights' files. All parts of a split model count.
size_t file_bytes(const std::filesystem::path& path);

}  // namespace nibble
