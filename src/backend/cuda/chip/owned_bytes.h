// Owners of GPU memory and of pinned host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "backend/cuda/chip/check.h"

namespace nibble::cuda {

struct DeviceMemory {
  static void* allocate(size_t bytes);
  static void release(void* data);
};
// Page-locked host memory, which a GPU can copy to and from asynchronously.
struct PinnedMemory {
  static void* allocate(size_t bytes);
  static void release(void* data);
};

// An uninitialized buffer in device or pinned memory. It can be moved, not copied.
template <typename Memory>
class OwnedBytes {
 public:
  OwnedBytes() = default;
  explicit OwnedBytes(size_t bytes) : data_(bytes ? Memory::allocate(bytes) : nullptr), bytes_(bytes) {}
  OwnedBytes(OwnedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedBytes& operator=(OwnedBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnedBytes() { Memory::release(data_); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_{nullptr};
  size_t bytes_{0};
};
using DeviceBuffer = OwnedBytes<DeviceMemory>;
using PinnedBuffer = OwnedBytes<PinnedMemory>;

}  // namespace nibble::cuda
