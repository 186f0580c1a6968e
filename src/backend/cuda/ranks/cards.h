// The GPUs of this process's ranks. Each GPU has a host thread of its own, because a launch on one GPU may
// wait for a launch on another.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_options.h"

namespace nibble::cuda {

void use_device(int device);  // selects the GPU for all later CUDA calls of this thread

// Returns the GPU of each rank: the GPUs that the options name, otherwise GPUs 0, 1, ... Throws InputError if
// a GPU is missing.
std::vector<int> devices_of(const CudaOptions& own);

// Returns one line that names two GPUs without peer access; an empty line if all GPUs can write to each
// other's memory.
std::string why_not_connected(std::span<const int> devices);
void connect(std::span<const int> devices);

// Runs one host thread per GPU. The caller's thread serves the first GPU.
class CardThreads {
 public:
  explicit CardThreads(std::vector<int> devices);
  ~CardThreads();

  void use_first() const { use_device(devices_.front()); }
  // Calls f(n) for each GPU devices_[n], on that GPU's thread and with that GPU selected. Returns once all
  // calls have ended; rethrows the first exception.
  void run(const std::function<void(size_t)>& f);

 private:
  void work(size_t card);

  const std::vector<int> devices_;
  std::atomic<uint64_t> round_{0};
  std::atomic<size_t> num_busy_{0};
  bool is_ending_{false};
  const std::function<void(size_t)>* task_{nullptr};
  std::vector<std::exception_ptr> errors_;
  std::vector<std::jthread> threads_;
};

}  // namespace nibble::cuda
