// C++ version of the part of CUB that the kernels use.
#pragma once

namespace cub {

template <typename T>
struct WarpReduce {
  struct TempStorage {};
  explicit WarpReduce(TempStorage&) {}
  T Sum(T value) {  // CUB returns the result in the first lane only
    const auto all = nibble::emulated::exchange(value);
    T sum{};
    for (int lane = 0; lane < 32; ++lane) sum += all[lane];
    return sum;
  }
};

}  // namespace cub
