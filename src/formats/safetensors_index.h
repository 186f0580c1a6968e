// Reads model.safetensors.index.json, which maps each tensor of a sharded checkpoint to its file:
// {"metadata": {"total_size": 13761264768}, "weight_map": {"TENSOR": "FILE", ...}}. Only the weight map is
// used. Files may have any name (gpt-oss numbers its files from 0, other models from 1).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nibble {

struct SafetensorsIndex {
  std::vector<std::string> files;                      // plain names of files in the folder of the index
  std::unordered_map<std::string, size_t> file_index;  // tensor name -> index into `files`
};

// `path` is for messages. Throws ContainerError.
SafetensorsIndex parse_safetensors_index(std::string_view json, const std::filesystem::path& path);

}  // namespace nibble
