// Writes a safetensors file of any size in the memory of whatever its caller holds: the header is known from dtypes and
// shapes, the data follows in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace nibble {

struct SafetensorsEntry {
  std::string name;
  DType dtype{};
  Shape shape;
};

// The data begins at a multiple of 64 bytes, and wider types come before narrower ones, so that every tensor is aligned
// for its dtype. A file that was not finished is refused by every reader, as truncated.
class SafetensorsWriter {
 public:
  // Writes the header. Throws InputError here and below where the file cannot be written.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsEntry> entries);

  const std::vector<SafetensorsEntry>& entries() const {
    return entries_;
  }                                               // in the order that append() expects
  void append(std::span<const std::byte> bytes);  // tensor by tensor, in any pieces
  void finish();                                  // all bytes must have been given

 private:
  void check_stream();

  std::filesystem::path path_;
  std::vector<SafetensorsEntry> entries_;
  std::ofstream file_;
  uint64_t missing_bytes_{0};
};

}  // namespace nibble
