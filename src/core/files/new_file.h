// Writes a file atomically: writes a temporary file in the same folder, syncs it to disk, then renames it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace nibble {

class NewFile {
 public:
  // Creates "PATH.unfinished-PID". Throws InputError if that fails, or if `path` is a device or a folder.
  explicit NewFile(std::filesystem::path path);
  ~NewFile();  // removes the temporary file if finish() was not called
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // write() and finish() throw std::system_error if the machine fails, such as on a full disk.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void finish();  // syncs, then renames; replaces an existing file

 private:
  std::filesystem::path path_, unfinished_;
  int fd_;  // -1 once finished
};

// Writes a text file. A regular file is replaced only when all of the text is on disk, so that a full disk
// does not destroy what it held; its mode stays, and a link still leads to it. Written directly are devices,
// FIFOs, files in folders that take no new file, and what a link leads to if it is not there. Throws
// InputError if that fails.
void write_text_file(const std::filesystem::path& path, std::string_view text);

// Throws InputError if the output file `path` is a FIFO that no process reads: opening it to write would wait
// for a reader. /dev/stdout and a FIFO with a reader are accepted.
void refuse_unread_fifo(const std::filesystem::path& path);

}  // namespace nibble
