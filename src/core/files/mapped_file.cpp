#include "core/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>

#include "core/console/progress.h"
#include "core/errors/error.h"
#include "core/files/lost_pages.h"
#include "core/system/available_bytes.h"
#include "core/text/bytes_text.h"
#include "core/threads/thread_pool.h"

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

// All files that are copied into memory (kRead). release_pages() gets only an address, and looks up the file
// here. The list is global, because a weight is a view of memory and does not know the file it was read from.
struct CopiedFile {
  std::span<const std::byte> bytes;
  int descriptor;
};
std::mutex copies_mutex;
std::vector<CopiedFile>& copies() {
  static std::vector<CopiedFile> all;
  return all;
}

uintptr_t page_bytes() { return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)); }

// Returns the whole pages within `bytes`; empty if there is none.
std::span<const std::byte> whole_pages(std::span<const std::byte> bytes) {
  const uintptr_t page = page_bytes(), first = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (first + page - 1) / page * page, end = (first + bytes.size()) / page * page;
  if (begin >= end) return {};
  return bytes.subspan(begin - first, end - begin);
}

// Replaces pages of a copy by pages of its file: that frees the memory, and a later access reads the file.
void replace_by_file(const CopiedFile& copy, std::span<const std::byte> pages) {
  const auto offset = static_cast<off_t>(pages.data() - copy.bytes.data());
  void* at = const_cast<std::byte*>(pages.data());
  // If mmap() fails, the memory stays in use, which is harmless.
  if (!pages.empty()) ::mmap(at, pages.size(), PROT_READ, MAP_PRIVATE | MAP_FIXED, copy.descriptor, offset);
}

// Returns 0, or the error number: that of pread(), or EIO if the file ends before `to` is full.
int read_part(int descriptor, std::span<std::byte> to, size_t offset) {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    to = to.subspan(static_cast<size_t>(count));
    offset += static_cast<size_t>(count);
  }
  return 0;
}

// Reads the file with all threads. Each free thread reads the next part of 16 MB. Returns 0, or the error
// number of a failed read.
int read_all(int descriptor, std::span<std::byte> to, const ReportProgress& report) {
  constexpr size_t kPart{size_t{16} << 20};
  const size_t num_parts = (to.size() + kPart - 1) / kPart;
  std::atomic<int> fault{0};
  std::mutex report_mutex;
  size_t done = 0;
  ThreadPool pool(0);
  pool.for_each(static_cast<ptrdiff_t>(num_parts), [&](ptrdiff_t item, int) {
    if (fault != 0) return;
    const size_t offset = static_cast<size_t>(item) * kPart, bytes = std::min(kPart, to.size() - offset);
    if (const int error = read_part(descriptor, to.subspan(offset, bytes), offset)) fault = error;
    const std::lock_guard lock(report_mutex);
    report(done += bytes, to.size());
  });
  return fault;
}

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

MappedFile::MappedFile(const std::filesystem::path& path, FileAccess access)
    : path_(path), is_copy_(access == FileAccess::kRead) {
  refuse_special_file(path);
  Descriptor file(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    throw InputError("{}: cannot be read: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw InputError("{}: not a regular file", path.string());
  const auto num_bytes = static_cast<size_t>(status.st_size);
  if (num_bytes == 0) return;  // mmap refuses length 0
  modified_ = status.st_mtim;
  descriptor_ = file.release();
  try {
    if (is_copy_)
      read(num_bytes);
    else
      map(num_bytes);
  } catch (...) {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    ::close(descriptor_);
    throw;
  }
  name_pages(bytes_, path_);
}

void MappedFile::map(size_t num_bytes) {
  void* data = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED) throw InputError("{}: cannot be mapped: {}", path_.string(), std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(data), num_bytes};
}

void MappedFile::read(size_t num_bytes) {
  if (const size_t available = available_bytes(); num_bytes > available)
    throw InputError("{}: reading it into memory (--no-mmap) needs {}, but only {} are available",
                     path_.string(), bytes_text(num_bytes), bytes_text(available));
  void* data = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw InputError("{}: no memory to read it: {}", path_.string(), std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(data), num_bytes};
  const int fault = read_all(descriptor_, {static_cast<std::byte*>(data), num_bytes},
                             show_progress("reading " + path_.filename().string()));
  if (fault != 0) throw InputError("{}: cannot be read: {}", path_.string(), std::strerror(fault));
  if (differs_from_opening()) throw InputError("{}: was changed while it was read", path_.string());
  ::mprotect(data, num_bytes, PROT_READ);
  const std::lock_guard lock(copies_mutex);
  copies().push_back({bytes_, descriptor_});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      is_copy_(other.is_copy_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      modified_(other.modified_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_copy_, other.is_copy_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(modified_, other.modified_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_pages(bytes_);
  if (is_copy_) {
    const std::lock_guard lock(copies_mutex);
    std::erase_if(copies(), [&](const CopiedFile& copy) { return copy.bytes.data() == bytes_.data(); });
  }
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

bool MappedFile::has_changed() const { return !is_copy_ && differs_from_opening(); }

bool MappedFile::differs_from_opening() const {
  struct stat status {};
  if (bytes_.empty() || ::fstat(descriptor_, &status) != 0) return false;
  return static_cast<size_t>(status.st_size) != bytes_.size() || status.st_mtim.tv_sec != modified_.tv_sec ||
         status.st_mtim.tv_nsec != modified_.tv_nsec;
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  if (part.empty()) return;
  if (is_copy_) return release_pages(part);
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
  const std::span<const std::byte> pages = whole_pages(bytes);
  if (pages.empty()) return;
  {
    const std::lock_guard lock(copies_mutex);
    for (const CopiedFile& copy : copies())
      if (std::less_equal<>()(copy.bytes.data(), pages.data()) &&
          std::less<>()(pages.data(), copy.bytes.data() + copy.bytes.size()))
        return replace_by_file(copy, pages);
  }
  // The call is only a hint: if it fails, the pages stay mapped, which is harmless.
  ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_DONTNEED);
}

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes)
    throw InputError("{}: {} bytes; at most {} are allowed for this kind of file", path.string(),
                     file.bytes().size(), max_bytes);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace nibble
