// C++ version of the part of CUB that the kernels use.
#pragma once

namespace cub {

template <typename T, int threads>
class BlockScan {
 public:
  struct TempStorage {
    T of_thread[threads];
  };
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}
  void ExclusiveSum(T value, T& before, T& total) {
    storage_.of_thread[threadIdx.x] = value;
    __syncthreads();
    before = total = T{};
    for (unsigned thread = 0; thread < threads; ++thread) {
      if (thread == threadIdx.x) before = total;
      total += storage_.of_thread[thread];
    }
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
