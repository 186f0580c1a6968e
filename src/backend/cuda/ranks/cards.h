// The GPUs that ranks run on, and a thread of the host for each: launches of one may wait for those of another, so each has its own.
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

void use_device(int device);  // what this thread asks of a GPU from now on is asked of this one

// The GPU of each rank, by the options: those that are named, else the first ones. Throws InputError where the machine has fewer.
std::vector<int> devices_of(const CudaOptions& own);

// Says in a line why some of the GPUs cannot write into the memory of others; empty where all can.
std::string why_not_connected(std::span<const int> devices);
// Lets each of the GPUs write into the memory of the others.
void connect(std::span<const int> devices);

// One thread for each of several GPUs, of which the first is the caller's.
class CardThreads {
 public:
  explicit CardThreads(std::vector<int> devices);
  CardThreads(const CardThreads&) = delete;
  CardThreads& operator=(const CardThreads&) = delete;
  ~CardThreads();

  void use_first() const { use_device(devices_.front()); }
  // Calls f(n) for each GPU on its thread, which uses the GPU, and returns when all are done. Throws what the first of them threw.
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
