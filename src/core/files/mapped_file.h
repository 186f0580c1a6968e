// A read-only file. Mapped, it shares the pages of the page cache, and each page is read from disk on first
// access. With FileAccess::kRead, it is a copy in memory, which later changes of the file do not affect.
#pragma once

#include <time.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nibble {

enum class FileAccess { kMap, kRead };

class MappedFile {
 public:
  // Throws InputError if the path is not a readable regular file; a FIFO is refused at once. An empty file
  // gives an empty span. kRead reads the whole file, by several threads, and reports progress; it also throws
  // if memory does not suffice, if a read fails, or if the file changes meanwhile.
  explicit MappedFile(const std::filesystem::path& path, FileAccess access = FileAccess::kMap);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }
  bool is_copy() const { return is_copy_; }
  // Whether the file has another size or another time of modification than when it was opened. Always false
  // for a copy.
  bool has_changed() const;

  // Linux caches a file in folios, groups of pages (up to 2 MB with 4 KB pages), and drops only whole folios.
  static constexpr size_t kFolioBytes{size_t{2} << 20};
  // Unmaps the folios that hold `part` from this process and drops them from the page cache, so that the next
  // access reads from disk. Pages stay cached if another process maps them, or if the file system is in
  // memory. If this object holds a copy of the file, frees the whole pages within `part`; the next access
  // reads them from the file again.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  void map(size_t num_bytes);
  void read(size_t num_bytes);
  bool differs_from_opening() const;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  bool is_copy_{false};
  int descriptor_{-1};  // kept open for drop_pages() and has_changed(); -1 if nothing is mapped
  timespec modified_{};
};
using MappedFiles = std::vector<std::shared_ptr<const MappedFile>>;

// Drops the pages of the mapped file that holds `part`, from the file's start to the end of `part`; no effect
// if no file holds `part`. Call it after each part of a sequential pass. Pages before `part` are dropped too,
// because Linux also reads pages before an accessed one, up to half of /sys/block/*/queue/read_ahead_kb. When
// only `part` was dropped, 12 % of a file stayed cached (parts of 32 MB, 8 MB of read-ahead).
void drop_pages_until(const MappedFiles& files, std::span<const std::byte> part);

// Unmaps the whole pages within `bytes`, a part of a mapped file; they stay in the system's page cache. If
// the file is a copy, frees these pages; a later access reads the file.
void release_pages(std::span<const std::byte> bytes);

// Throws InputError if the path is a FIFO, a socket or a device: reading one could block forever.
void refuse_special_file(const std::filesystem::path& path);

// Reads a small text file. Throws InputError like MappedFile, and if the file is larger than `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 28);

}  // namespace nibble
