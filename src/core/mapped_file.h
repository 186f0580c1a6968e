// MappedFile maps a file for reading. Its pages are those of the page cache, and each is read when it is first touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace nibble {

class MappedFile {
 public:
  // Throws InputError where there is no such file, or it is a folder or not readable. An empty file gives an empty span.
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

// Unmaps the whole pages within `bytes`, a part of a mapped file, from this process (MADV_DONTNEED). They stay in the page cache
// and are mapped again when they are read.
void release_pages(std::span<const std::byte> bytes);

// Reads a small text file (JSON, a vocabulary) as a whole. Throws InputError as above, and beyond `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 28);

}  // namespace nibble
