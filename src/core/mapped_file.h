// MappedFile maps a file for reading. Its pages are those of the page cache, and each is read when it is first touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

  // Linux keeps a file in folios, of up to 2 MB where a page has 4 KB, and drops only whole ones from its cache.
  static constexpr size_t kFolioBytes{size_t{2} << 20};
  // Unmaps the folios that hold `part` from this process and takes them out of the page cache: they are read from the disk when they
  // are touched again. Those that another process has mapped stay, and all that a filesystem in memory has.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  int descriptor_{-1};  // stays open for drop_pages(); -1 where nothing is mapped
};
using MappedFiles = std::vector<std::shared_ptr<const MappedFile>>;

// For a pass over parts of mapped files, after each of them: drops the pages of its file from the beginning to the end of `part`.
// What Linux reads around a page that is touched, up to half of /sys/block/*/queue/read_ahead_kb before it, goes as well: where that
// was 8 MB it was 12 % of a file read in pieces of 32 MB. Bytes of no file are left alone.
void drop_pages_until(const MappedFiles& files, std::span<const std::byte> part);

// Unmaps the whole pages within `bytes`, a part of a mapped file, from this process (MADV_DONTNEED). They stay in the page cache
// and are mapped again when they are read.
void release_pages(std::span<const std::byte> bytes);

// Reads a small text file (JSON, a vocabulary) as a whole. Throws InputError as above, and beyond `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 28);

}  // namespace nibble
