// C++ version of the part of CUB that the kernels use.
#pragma once

namespace cub {

template <typename T, int threads>
class BlockReduce {
 public:
  struct TempStorage {
    T of_thread[threads];
  };
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}
  template <typename Op>
  T Reduce(T value, const Op& op) {  // CUB returns the result in the first thread only
    storage_.of_thread[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int thread = 1; thread < threads; ++thread) value = op(value, storage_.of_thread[thread]);
    return value;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
