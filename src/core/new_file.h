// A file that has its name only when it is whole: written beside it, synced to the disk, then renamed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace nibble {

class NewFile {
 public:
  // Beside `path`, as "NAME.unfinished-PROCESS". Throws InputError where no file can be made there, or
  // where the name is that of something else, a device or a folder.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();  // removes what is not finished
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Throws std::system_error, here and below, where the machine fails: the disk is full, or broken.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish();  // in place of what had the name before

 private:
  std::filesystem::path path_, unfinished_;
  int fd_;  // -1: finished
};

}  // namespace nibble
