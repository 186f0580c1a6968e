// C++ version of the part of CUB that the kernels use.
#pragma once

namespace cub {

template <typename T>
class WarpScan {
 public:
  struct TempStorage {};
  explicit WarpScan(TempStorage&) {}
  void InclusiveSum(T value, T& up_to) { scan(value, up_to), up_to += value; }
  void ExclusiveSum(T value, T& before) { scan(value, before); }
  void ExclusiveSum(T value, T& before, T& total) { total = scan(value, before); }

 private:
  static T scan(T value, T& before) {
    const auto all = nibble::emulated::exchange(value);
    T sum{};
    for (int lane = 0; lane < 32; ++lane) {
      if (lane == nibble::emulated::lane()) before = sum;
      sum += all[lane];
    }
    return sum;
  }
};

}  // namespace cub
