// A container holds named tensors as views of mapped memory. The first bytes of a file identify its format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "core/mapped_file.h"
#include "core/shape.h"

namespace nibble {

struct Tensor {
  std::string name;
  DType dtype{};
  Shape shape;
  std::span<const std::byte> data;  // row-major, little-endian, aligned for its dtype
  size_t file_index{0};             // into Container::files
};

struct Container {
  Container() = default;
  Container(Container&&) = default;  // move-only: places_ holds views of this container's own names
  Container& operator=(Container&&) = default;

  std::vector<Tensor> tensors;               // in the order of the files
  std::vector<std::filesystem::path> files;  // the files that hold the tensors
  MappedFiles mapped;                        // the same files, mapped
  std::shared_ptr<const void> storage;       // keeps the data of all tensors alive

  const Tensor* find(std::string_view name) const;  // null if there is no tensor of this name
  void index();                                     // call after `tensors` is filled, before find()

 private:
  std::unordered_map<std::string_view, size_t> places_;
};

// Opens one tensor file, which must be safetensors. Throws InputError. A GGUF file is refused with its own
// message: it is a complete model, and its block formats have no DType (see formats/gguf.h).
Container open_container(const std::filesystem::path& file);

// Opens the tensor files of a folder: those listed in model.safetensors.index.json, else
// model.safetensors, else (as in OpenAI's original/) every *.safetensors directly in it. Refuses names in
// the index that lead out of the folder.
Container open_container_folder(const std::filesystem::path& folder);

}  // namespace nibble
