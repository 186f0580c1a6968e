// Writes a safetensors file of any size in pieces, the header first: it needs only dtypes and shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/files/new_file.h"
#include "core/tensors/dtype.h"
#include "core/tensors/shape.h"

namespace nibble {

struct SafetensorsEntry {
  std::string name;
  DType dtype{};
  Shape shape;
};

// The data begins at a multiple of 64 bytes, and tensors of wider dtypes come first, so every tensor is
// aligned for its dtype. The destructor removes the file unless finish() was called. All members throw what
// NewFile throws.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries);

  // Returns the entries, in the order in which append() expects the data.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  void append(std::span<const std::byte> bytes);  // takes the data in pieces of any size
  void finish();                                  // call after all bytes are appended

 private:
  std::vector<SafetensorsEntry> entries_;
  NewFile file_;
  uint64_t missing_bytes_{0};
};

}  // namespace nibble
