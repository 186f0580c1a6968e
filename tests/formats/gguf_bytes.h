// Builds valid and invalid GGUF files in memory, byte by byte, so that the reader is tested against the
// format and not against the writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace nibble {

template <typename T>
std::string le(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}

inline std::string gguf_string(std::string_view text) { return le<uint64_t>(text.size()).append(text); }

inline std::string gguf_entry(std::string_view key, uint32_t type, std::string_view value) {
  return gguf_string(key).append(le(type)).append(value);
}
inline std::string gguf_u32(std::string_view key, uint32_t value) { return gguf_entry(key, 4, le(value)); }
inline std::string gguf_text(std::string_view key, std::string_view value) {
  return gguf_entry(key, 8, gguf_string(value));
}

// Returns the bytes of an entry in the tensor list. Extents are in the order of the file, innermost first.
inline std::string gguf_tensor(std::string_view name, const std::vector<uint64_t>& extents, uint32_t type,
                               uint64_t offset) {
  std::string bytes = gguf_string(name) + le(static_cast<uint32_t>(extents.size()));
  for (const uint64_t extent : extents) bytes += le(extent);
  return bytes + le(type) + le(offset);
}

struct GgufBytes {
  std::vector<std::string> metadata, tensors;
  std::string data;
  uint32_t version{3};
  size_t alignment{32};

  std::string file() const {
    std::string bytes = "GGUF" + le(version) + le<uint64_t>(tensors.size()) + le<uint64_t>(metadata.size());
    for (const std::string& entry : metadata) bytes += entry;
    for (const std::string& tensor : tensors) bytes += tensor;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes + data;
  }
};

}  // namespace nibble
