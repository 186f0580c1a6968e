// Writes a GGUF file of any size in pieces. The header is written first; it needs only types and shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/new_file.h"
#include "core/tensors/shape.h"
#include "formats/gguf.h"

namespace nibble {

class GgufMetadata {  // keeps the order of add(); each key may be added only once
 public:
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) = delete;  // would convert to bool
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<int32_t>& values);
  void add_booleans(std::string_view key, const std::vector<uint8_t>& values);  // each value is 0 or 1

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType element_type, size_t count);

  std::string bytes_;
  uint64_t count_{0};
};

struct GgufEntry {
  std::string name;
  GgmlType type{};
  Shape shape;  // outermost extent first
};

// The destructor removes the file unless finish() was called. All members throw what NewFile throws.
class GgufWriter {
 public:
  GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata, std::vector<GgufEntry> entries);

  // Appends tensor data, in the order of the entries. The data of one call must not span two tensors.
  void append(std::span<const std::byte> bytes);
  void finish();  // call after all bytes are appended

 private:
  void write(std::string_view bytes);
  void pad();

  std::vector<GgufEntry> entries_;
  NewFile file_;
  size_t next_{0};             // index of the tensor that is being written
  uint64_t missing_bytes_{0};  // bytes of tensor next_ that are not written yet
  uint64_t num_written_{0};
};

size_t num_bytes(const GgufEntry& entry);

}  // namespace nibble
