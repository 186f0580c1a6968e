// A file, mapped for reading. The mapping is shared with the page cache: nothing is read before it is touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace nibble {

class MappedFile {
 public:
  // Throws InputError: no such file, a folder, not readable. An empty file gives an empty span.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// Takes the whole pages within `bytes`, which lie in a mapped file, out of this process's memory; they stay in the page cache and
// come back when they are read.
void release_pages(std::span<const std::byte> bytes);

// The whole of a small text file (JSON, vocabularies). Throws InputError as above, and where it is over `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 28);

}  // namespace nibble
