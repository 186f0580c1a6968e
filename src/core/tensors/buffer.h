// Bytes in host memory, aligned for vector loads.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace nibble {

class Buffer {
 public:
  static constexpr size_t kAlignment{64};  // a cache line, and the widest vector load (AVX-512)

  Buffer() = default;
  // Leaves the bytes uninitialised. The system assigns memory to a page only when it is first written.
  explicit Buffer(size_t bytes) : Buffer(bytes, kAlignment) {}

  // Returns a buffer in 2 MB pages, if the system grants them, for data that is read many times: fewer TLB
  // entries are needed than with pages of 4 KB.
  static Buffer of_huge_pages(size_t bytes) {
    Buffer buffer(bytes, kHugePage);
#if defined(__linux__)
    ::madvise(buffer.data(), (bytes + kHugePage - 1) / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
    return buffer;
  }

  std::byte* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  static constexpr size_t kHugePage{size_t{2} << 20};
  Buffer(size_t bytes, size_t alignment)
      : data_(static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment))),
        bytes_(bytes) {
    if (!data_) throw std::bad_alloc();
  }

  std::unique_ptr<std::byte[], Free> data_;
  size_t bytes_{0};
};

}  // namespace nibble
