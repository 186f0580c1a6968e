// A container yields named tensors as views of mapped memory. The kind of file is recognised by its first bytes.
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
  std::span<const std::byte> data;  // aligned for its dtype; row-major, little-endian
  size_t file_index{0};             // index of Container::files
};

struct Container {
  Container() = default;
  Container(Container&&) = default;  // move-only: find() uses views of this container's own names
  Container& operator=(Container&&) = default;

  std::vector<Tensor> tensors;               // in the order of the files
  std::vector<std::filesystem::path> files;  // that hold the tensors
  MappedFiles mapped;                        // the same files, mapped
  std::shared_ptr<const void> storage;       // keeps `data` alive

  const Tensor* find(std::string_view name) const;  // null if there is no tensor of this name
  void index();                                     // call it after `tensors` is filled, before find()

 private:
  std::unordered_map<std::string_view, size_t> places_;
};

// Opens one tensor file, which must be safetensors. A GGUF file is refused with a message of its own, because it is a model by
// itself and its blocks have no dtype: see formats/gguf.h. Throws InputError.
Container open_container(const std::filesystem::path& file);

// Opens the tensor files of a folder: those that its model.safetensors.index.json names, else model.safetensors, else (as in
// OpenAI's original/) every *.safetensors directly in it. Names in the index that lead out of the folder are refused.
Container open_container_folder(const std::filesystem::path& folder);

}  // namespace nibble
