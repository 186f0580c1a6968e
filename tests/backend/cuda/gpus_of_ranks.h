// The GPUs on which the ranks of a test run.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace nibble::cuda {

inline int num_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
// Returns the GPU of each rank, for tests in which all ranks take turns on the first GPU.
inline std::vector<int> one_gpu(int num_ranks) { return std::vector<int>(static_cast<size_t>(num_ranks), 0); }
inline std::vector<int> a_gpu_each(int num_ranks) {
  std::vector<int> gpus;
  for (int gpu = 0; gpu < num_ranks; ++gpu) gpus.push_back(gpu);
  return gpus;
}

}  // namespace nibble::cuda
