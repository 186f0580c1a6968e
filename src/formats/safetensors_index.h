// Reads model.safetensors.index.json, which maps the tensors of a checkpoint in several files to their files.
//
//   {"metadata": {"total_size": 13761264768}, "weight_map": {"TENSOR": "FILE", ...}}
//
// Only the weight map is used. Names and numbers of files follow no rule (gpt-oss counts from 0, others from 1).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nibble {

struct SafetensorsIndex {
  std::vector<std::string> files;                      // plain file names, in the folder of the index
  std::unordered_map<std::string, size_t> file_index;  // by tensor: index of `files`
};

// `path` is for messages. Throws ContainerError.
SafetensorsIndex parse_safetensors_index(std::string_view json, const std::filesystem::path& path);

}  // namespace nibble
