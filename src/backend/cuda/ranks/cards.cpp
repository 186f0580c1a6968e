#include "backend/cuda/ranks/cards.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>

#include "backend/cuda/chip/owned_bytes.h"
#include "core/errors/error.h"

namespace nibble::cuda {

void use_device(int device) { check(cudaSetDevice(device), "selecting a GPU"); }

std::vector<int> devices_of(const CudaOptions& own) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting GPUs");
  const auto what_is_here = [&] {
    return count == 1 ? std::string("this machine has one GPU, number 0")
                      : fmt::format("this machine has {} GPUs, numbers 0 to {}", count, count - 1);
  };
  if (own.node_rank && own.gpus.empty()) return {0};
  if (own.gpus.empty()) {
    std::vector<int> first;
    for (int device = 0; device < own.num_ranks(); ++device) first.push_back(device);
    if (own.num_ranks() > count)
      throw InputError("--tensor-parallel-size {}: {}", own.num_ranks(), what_is_here());
    return first;
  }
  for (const int device : own.gpus)
    if (device >= count) throw InputError("--gpus {}: {}", fmt::join(own.gpus, ","), what_is_here());
  return own.gpus;
}

std::string why_not_connected(std::span<const int> devices) {
  for (const int from : devices)
    for (const int to : devices) {
      if (from == to) continue;
      int can_access = 0;
      check(cudaDeviceCanAccessPeer(&can_access, from, to), "reading its peer access");
      if (!can_access)
        return fmt::format("GPU {} cannot write into the memory of GPU {} (no peer access)", from, to);
    }
  return {};
}

void connect(std::span<const int> devices) {
  for (const int from : devices)
    for (const int to : devices) {
      if (from == to) continue;
      use_device(from);
      const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
      if (error == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();  // clears the error: peer access was already enabled
      else
        check(error, "connecting GPUs");
    }
}

CardThreads::CardThreads(std::vector<int> devices) : devices_(std::move(devices)), errors_(devices_.size()) {
  for (size_t card = 1; card < devices_.size(); ++card) threads_.emplace_back([this, card] { work(card); });
}

CardThreads::~CardThreads() {
  is_ending_ = true;
  round_.fetch_add(1);
  round_.notify_all();
}

void CardThreads::run(const std::function<void(size_t)>& f) {
  use_first();
  if (threads_.empty()) return f(0);
  task_ = &f;
  num_busy_ = threads_.size();
  round_.fetch_add(1);
  round_.notify_all();
  try {
    f(0);
    errors_[0] = nullptr;
  } catch (...) {
    errors_[0] = std::current_exception();
  }
  for (size_t busy = num_busy_; busy > 0; busy = num_busy_) num_busy_.wait(busy);
  for (const std::exception_ptr& error : errors_)
    if (error) std::rethrow_exception(error);
}

void CardThreads::work(size_t card) {
  for (uint64_t round = 0;;) {
    round_.wait(round);
    round = round_;
    if (is_ending_) return;
    try {
      use_device(devices_[card]);
      (*task_)(card);
      errors_[card] = nullptr;
    } catch (...) {
      errors_[card] = std::current_exception();
    }
    if (num_busy_.fetch_sub(1) == 1) num_busy_.notify_all();
  }
}

}  // namespace nibble::cuda
