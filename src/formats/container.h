// A container yields named tensors as views on mapped memory. What kind of file it is, its first bytes say.
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
#include "core/shape.h"

namespace nibble {

struct Tensor {
  std::string name;
  DType dtype{};
  Shape shape;
  std::span<const std::byte> data;  // aligned for its dtype; row-major, little-endian
  size_t file_index{0};             // into Container::files
};

struct Container {
  Container() = default;
  Container(Container&&) = default;  // not copied: find() looks names up by views on this container's own
  Container& operator=(Container&&) = default;

  std::vector<Tensor> tensors;               // in the order of the files
  std::vector<std::filesystem::path> files;  // where they lie
  std::shared_ptr<const void> storage;       // keeps `data` alive

  const Tensor* find(std::string_view name) const;  // null: there is none
  void index();                                     // after `tensors` is filled; find() needs it

 private:
  std::unordered_map<std::string_view, size_t> places_;
};

// One tensor file. Opener rows by magic bytes: safetensors. A GGUF file, whose blocks no dtype names and which is a model
// by itself, is refused by name: formats/gguf.h. Throws InputError.
Container open_container(const std::filesystem::path& file);

// A folder's tensor files: those that its model.safetensors.index.json names, else model.safetensors, else (OpenAI's
// original/ naming) every *.safetensors that lies directly in it. Names in the index that leave the folder are refused.
Container open_container_folder(const std::filesystem::path& folder);

}  // namespace nibble
