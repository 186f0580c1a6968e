// Folders in which other programs keep models on this machine. Nothing is downloaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nibble {

// The functions find_in_...() return a model's folder or file, or nullopt. They append the places where they
// looked to `tried`.
using Tried = std::vector<std::string>;

// "OWNER/NAME" or "OWNER/NAME@REVISION" in the cache of huggingface_hub. A revision is a branch, a tag, or
// the beginning of a commit's hash; without one, refs/main, else the newest snapshot.
std::optional<std::filesystem::path> find_in_hugging_face(const std::string& name, Tried& tried);

// "OWNER/NAME" in the folder of LM Studio.
std::optional<std::filesystem::path> find_in_lm_studio(const std::string& name, Tried& tried);

// "gpt-oss:20b", "OWNER/NAME:TAG" or "HOST/OWNER/NAME:TAG" in Ollama's store; without a tag, "latest". Throws
// ContainerError for a damaged manifest.
std::optional<std::filesystem::path> find_in_ollama(const std::string& name, Tried& tried);

// If `path` is a folder (or holds a folder) with one GGUF model and no safetensors files, returns that file;
// otherwise returns `path`. A split model is one model. InputError with the names if there are several.
std::filesystem::path only_gguf_in(const std::filesystem::path& path);

}  // namespace nibble
