#include "core/files/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/errors/error.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string() + ": cannot be written");
}

// Writes the folder of `path` to disk, so that the file's new name survives a crash. Ignores errors, because
// file systems that can't sync a folder need no sync.
void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

NewFile::NewFile(fs::path path) : path_(std::move(path)), unfinished_(path_) {
  // Refuse a device such as /dev/null: the rename would replace the device by a file.
  if (std::error_code error; fs::exists(path_, error) && !fs::is_regular_file(path_, error))
    throw InputError("{}: cannot be written: not a regular file", path_.string());
  unfinished_ += fmt::format(".unfinished-{}", ::getpid());
  fd_ = ::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw InputError("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  if (struct stat old{}; ::stat(path_.c_str(), &old) == 0) ::fchmod(fd_, old.st_mode & 0777);
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(unfinished_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    constexpr size_t kMostAtOnce{size_t{1} << 30};  // Linux writes at most 2 GB per call
    const ssize_t count = ::write(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void NewFile::finish() {
  if (::fsync(fd_) != 0 || std::rename(unfinished_.c_str(), path_.c_str()) != 0) fail(path_);
  ::close(std::exchange(fd_, -1));
  sync_folder_of(path_);
}

void write_text_file(const fs::path& path, std::string_view text) try {
  std::error_code error, ignored;
  fs::path file = fs::canonical(path, error);  // of a link, the file that it leads to
  const bool is_new = error && !fs::is_symlink(path, ignored);
  if (is_new) file = path;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (is_new || (fs::is_regular_file(file, ignored) && ::access(folder.c_str(), W_OK) == 0)) {
    NewFile out(file);
    out.write(text);
    return out.finish();
  }
  refuse_unread_fifo(path);
  std::ofstream out(path);
  if (!out.write(text.data(), static_cast<std::streamsize>(text.size())).flush())
    throw InputError("{}: cannot be written", path.string());
} catch (const std::system_error& failure) {
  throw InputError("{}", failure.what());
}

void refuse_unread_fifo(const fs::path& path) {
  std::error_code error;
  if (fs::status(path, error).type() != fs::file_type::fifo) return;
  const int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  const bool is_unread = fd < 0 && errno == ENXIO;
  if (fd >= 0) ::close(fd);
  if (is_unread)
    throw InputError("{}: is a FIFO that no process reads; give the name of a file", path.string());
}

}  // namespace nibble
