// GPU arrays that are filled with poison and surrounded by it: bytes of 0xFF, a NaN in every float format and
// an invalid index. Poison reveals elements that a kernel does not write, and accesses out of bounds.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/owned_bytes.h"
#include "backend/cuda/verify/comparison.h"

namespace nibble::cuda::verify {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count), bytes_(kGuard + count * sizeof(T) + kGuard) {
    poison();
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    copy_to_device(data(), from.data(), count_ * sizeof(T), "copying inputs");
  }

  void poison() const { fill_on_device(bytes_.as<void>(), 0xFF, bytes_.bytes(), "poisoning"); }

  T* data() const { return reinterpret_cast<T*>(bytes_.as<uint8_t>() + kGuard); }
  size_t count() const { return count_; }

  // Downloads the array, and checks that the poison around it is unchanged.
  std::vector<T> read(Comparison& comparison, const char* what) const {
    std::vector<uint8_t> all(bytes_.bytes());
    check(cudaMemcpy(all.data(), bytes_.as<void>(), all.size(), cudaMemcpyDeviceToHost), "copying results");
    for (size_t i = 0; i < kGuard; ++i)
      comparison.equal(what, -1, i, all[i] + all[all.size() - 1 - i], 2 * 0xFF);
    std::vector<T> values(count_);
    std::copy_n(all.data() + kGuard, count_ * sizeof(T), reinterpret_cast<uint8_t*>(values.data()));
    return values;
  }

 private:
  static constexpr size_t kGuard{256};
  size_t count_;
  DeviceBuffer bytes_;
};

inline __nv_bfloat16* bf16(const DeviceArray<uint16_t>& array) {
  return reinterpret_cast<__nv_bfloat16*>(array.data());
}

}  // namespace nibble::cuda::verify
