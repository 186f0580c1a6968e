#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/lost_pages.h"

namespace nibble {
namespace {

class Descriptor {
 public:
  // Opens with O_NONBLOCK, because opening a FIFO would otherwise wait for a writer.
  explicit Descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw InputError("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

void refuse_special_file(const std::filesystem::path& path) {
  std::error_code error;
  switch (std::filesystem::status(path, error).type()) {
    case std::filesystem::file_type::fifo:
      throw InputError("{}: is a FIFO (a named pipe or the shell's <(...)); expected a file", path.string());
    case std::filesystem::file_type::socket:
      throw InputError("{}: is a socket; expected a file", path.string());
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::block:
      throw InputError("{}: is a device; expected a file", path.string());
    default:
      return;
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  refuse_special_file(path);
  Descriptor file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    throw InputError("{}: cannot be read: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw InputError("{}: not a regular file", path.string());
  const auto num_bytes = static_cast<size_t>(status.st_size);
  if (num_bytes == 0) return;  // mmap refuses length 0
  void* data = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) throw InputError("{}: cannot be mapped: {}", path.string(), std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(data), num_bytes};
  modified_ = status.st_mtim;
  descriptor_ = file.release();
  name_pages(bytes_, path_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      modified_(other.modified_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(modified_, other.modified_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_pages(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

bool MappedFile::has_changed() const {
  struct stat status {};
  if (bytes_.empty() || ::fstat(descriptor_, &status) != 0) return false;
  return static_cast<size_t>(status.st_size) != bytes_.size() || status.st_mtim.tv_sec != modified_.tv_sec ||
         status.st_mtim.tv_nsec != modified_.tv_nsec;
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto offset = static_cast<size_t>(part.data() - bytes_.data());
  const size_t begin = offset / kFolioBytes * kFolioBytes,
               end = (offset + part.size() + kFolioBytes - 1) / kFolioBytes * kFolioBytes,
               mapped_end = std::min(end, bytes_.size());
  // Unmap first, because fadvise does not drop mapped pages. Both calls are hints; failures are ignored.
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, mapped_end - begin, MADV_DONTNEED);
  ::posix_fadvise(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                  POSIX_FADV_DONTNEED);
}

void drop_pages_until(const MappedFiles& files, std::span<const std::byte> part) {
  for (const std::shared_ptr<const MappedFile>& file : files) {
    const std::span<const std::byte> all = file->bytes();
    if (std::less_equal<>()(all.data(), part.data()) &&
        std::less_equal<>()(part.data() + part.size(), all.data() + all.size()))
      return file->drop_pages({all.data(), part.data() + part.size()});
  }
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page,
             end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  // Only a hint: if it fails, the pages stay mapped, which is harmless.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes)
    throw InputError("{}: {} bytes; at most {} are allowed for this kind of file", path.string(),
                     file.bytes().size(), max_bytes);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace nibble
