// Folders in which other programs keep models on this machine. Nothing is downloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace nibble {

// The functions find_in_...() return a model's folder or file, or nullopt. They append the places where they
// looked to `tried`.
using Tried = std::vector<std::string>;

// Returns the text of a path for `tried`. `why`: the system's reason, such as "Permission denied"; none if
// nothing is at the path.
std::string with_reason(const std::filesystem::path& path, std::error_code why);

// Finds "OWNER/NAME" or "OWNER/NAME@REVISION" in the cache of huggingface_hub. A revision is a branch, a tag
// or the beginning of a commit's hash; without one, refs/main, else the newest snapshot.
std::optional<std::filesystem::path> find_in_hugging_face(const std::string& name, Tried& tried);

// Finds "OWNER/NAME" in the folder of LM Studio.
std::optional<std::filesystem::path> find_in_lm_studio(const std::string& name, Tried& tried);

// Finds "gpt-oss:20b", "OWNER/NAME:TAG" or "HOST/OWNER/NAME:TAG" in Ollama's store; without a tag, "latest".
// Throws ContainerError for a damaged manifest.
std::optional<std::filesystem::path> find_in_ollama(const std::string& name, Tried& tried);

struct StoredModel {
  std::string name;            // argument with which the find_in_...() function of its store finds it
  std::string_view place;      // "Hugging Face", "LM Studio", "Ollama"
  std::filesystem::path path;  // empty if `fault` says why
  std::string fault{};
};
// Lists the models in all three stores, in no order, also those of other architectures.
std::vector<StoredModel> stored_models();

// Returns the models of a folder: the folder if it has safetensors files, otherwise its GGUF files (the first
// part of a split model), sorted, with those of its subfolders if `looks_below`. Returns any other path
// unchanged.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& path, bool looks_below = true);

// Returns the only GGUF model in a folder without safetensors files, perhaps in a subfolder; any other path
// unchanged. A split model counts once. Throws an InputError with the names if there are several models.
std::filesystem::path only_gguf_in(const std::filesystem::path& path);

}  // namespace nibble
