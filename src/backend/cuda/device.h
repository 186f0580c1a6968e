// The one GPU: its properties, its memory, its stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

namespace nibble::cuda {

using Stream = cudaStream_t;

// A call of the CUDA runtime that has to succeed. Throws InputError naming what was tried where it does not: a lost or full
// device is the outside world's doing.
void check(cudaError_t error, const char* what);

// Why there is no GPU to use, in a line; empty where there is one.
std::string why_no_device();

struct DeviceInfo {
  std::string name;
  int num_multiprocessors{0};
  int compute_capability{0};  // 90: sm_90
  size_t total_bytes{0}, free_bytes{0};
  size_t max_shared_bytes{0};  // of a block
};
DeviceInfo device_info();
bool has_dependent_launch();  // sm_90 and later

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

class OwnedStream {
 public:
  OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream();
  operator Stream() const { return stream_; }
  void wait() const;  // until all that was put into it is done

 private:
  Stream stream_{nullptr};
};

}  // namespace nibble::cuda
