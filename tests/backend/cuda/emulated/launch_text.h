// Writes launches as text: kernel, grid, threads, shared memory, attributes, and the values of all arguments.
//
// An address is written as the name of its array and the offset in bytes. Zeros and null pointers are left
// out, so that a missing field and a zero one give the same text. Arguments of the functions in args.h are
// written field by field, by names that stay the same when fields move. All other arguments are written as in
// memory: words, each after its index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/forward.h"
#include "tests/backend/cuda/emulated/emulated_gpu.h"

namespace nibble::emulated {

// Arrays by name. take() returns made-up addresses: no kernel runs, so no memory is needed.
class NamedArrays {
 public:
  template <typename T>
  T* take(const std::string& name) {
    const uintptr_t base = kFirst + arrays_.size() * kMostBytes;
    arrays_.push_back({name, base, kMostBytes});
    return reinterpret_cast<T*>(base);
  }
  void add(const std::string& name, const void* data, size_t bytes) {
    arrays_.push_back({name, reinterpret_cast<uintptr_t>(data), bytes});
  }
  // Returns a text such as "normed" or "normed+64"; empty if no array has that address.
  std::string name_of(uintptr_t address) const;

 private:
  static constexpr uintptr_t kFirst{0x5A0000000000}, kMostBytes{uintptr_t{1} << 36};
  struct Array {
    std::string name;
    uintptr_t base;
    size_t bytes;
  };
  std::vector<Array> arrays_;
};

std::string text_of(const RecordedLaunch& launch, const NamedArrays& arrays);
std::string text_of(const cuda::HalfOutput& output, const NamedArrays& arrays);

}  // namespace nibble::emulated
