// Memory of the GPU, or for it, with an owner.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace nibble::cuda {

// A call of the CUDA runtime that has to succeed. Throws InputError naming what was tried where it does not: a lost or full
// device is the outside world's doing.
void check(cudaError_t error, const char* what);

struct DeviceMemory {
  static void* take(size_t bytes);
  static void give_back(void* data);
};
// Of the host, from and to which the device copies without the host's help.
struct PinnedMemory {
  static void* take(size_t bytes);
  static void give_back(void* data);
};

// Bytes of one of them with one owner; contents are not set.
template <typename Memory>
class OwnedBytes {
 public:
  OwnedBytes() = default;
  explicit OwnedBytes(size_t bytes) : data_(bytes ? Memory::take(bytes) : nullptr), bytes_(bytes) {}
  OwnedBytes(OwnedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  OwnedBytes& operator=(OwnedBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnedBytes() { Memory::give_back(data_); }

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
