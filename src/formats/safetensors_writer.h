// Writes a safetensors file of any size without holding it in memory: the header follows from dtypes and shapes, and the data
// is appended in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/new_file.h"
#include "core/shape.h"

namespace nibble {

struct SafetensorsEntry {
  std::string name;
  DType dtype{};
  Shape shape;
};

// The data begins at a multiple of 64 bytes, and wider types come before narrower ones, so that every tensor is aligned
// for its dtype. A file without finish() is removed.
class SafetensorsWriter {
 public:
  // Writes the header. Throws as NewFile does, here and below.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries);

  // In the order that append() expects.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  void append(std::span<const std::byte> bytes);  // in the order of entries(), in any pieces
  void finish();                                  // after all bytes

 private:
  std::vector<SafetensorsEntry> entries_;
  NewFile file_;
  uint64_t missing_bytes_{0};
};

}  // namespace nibble
