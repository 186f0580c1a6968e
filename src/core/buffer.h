// Bytes in host memory with one owner, aligned for vector loads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace nibble {

class Buffer {
 public:
  static constexpr size_t kAlignment{64};  // a cache line, and the widest vector load (AVX-512)

  Buffer() = default;
  // Contents are not set, and pages not touched: a large buffer costs address space until it is written.
  explicit Buffer(size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, padded(bytes)))), bytes_(bytes) {
    if (!data_) throw std::bad_alloc();
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
  static size_t padded(size_t bytes) { return (bytes / kAlignment + 1) * kAlignment; }

  std::unique_ptr<std::byte[], Free> data_;
  size_t bytes_{0};
};

}  // namespace nibble
