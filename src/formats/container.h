// Named tensors as views of mapped memory. formats/open_container.h opens a container.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/files/mapped_file.h"
#include "core/tensors/dtype.h"
#include "core/tensors/shape.h"

namespace nibble {

struct Tensor {
  std::string name;
  DType dtype{};
  Shape shape;
  std::span<const std::byte> data;  // row-major, little-endian, aligned for its dtype
  size_t file_index{0};             // index into Container::files
};

struct Container {
  Container() = default;
  // can't be copied: places_ of a copy would view the names of the original
  Container(Container&&) = default;
  Container& operator=(Container&&) = default;

  std::vector<Tensor> tensors;               // all tensors, in the order of `files`
  std::vector<std::filesystem::path> files;  // files with the tensors
  MappedFiles mapped;                        // mappings of `files`
  std::shared_ptr<const void> storage;       // keeps the data of all tensors alive

  const Tensor* find(std::string_view name) const;  // null if absent
  void index();                                     // call after `tensors` is filled and before find()

 private:
  std::unordered_map<std::string_view, size_t> places_;
};

}  // namespace nibble
