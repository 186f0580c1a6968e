// A GPU on the CPU, for tests: it runs kernels that are compiled as C++, with the twins of what is PTX (twins/). A CTA is a thread of the
// host, so that its __shared__ variables are the host's thread_local ones, and its threads are fibers that pass control to each other
// where they wait. Up to kMostResidents CTAs run at once, as those that wait for each other need it, and then the next ones. A launch has
// ended when it returns.
//
// It shows what a kernel computes, and whether it ends. It says nothing of speed, and little of races: lanes run one after the other
// between two exchanges, warps in an order that changes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <vector>

// The thread of the GPU that runs now.
extern constinit thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace nibble::emulated {

// Its CTA's dynamic shared memory.
struct SharedMemory {
  uint8_t* bytes{nullptr};
  uint32_t num_bytes{0};
};
extern constinit thread_local SharedMemory shared_memory;

// Lets the other threads of the CTA run, and now and then other CTAs: in every loop that polls.
void yield();
void sync_cta();
// Synchronises so many threads of the CTA, whole warps, that name the same barrier.
void sync_some(int barrier, int num_threads);

inline constexpr size_t kExchangeBytes{64};
inline constexpr unsigned kMostResidents{16};
// Each lane of a warp gives `bytes`. Returns those of all lanes, kExchangeBytes apart; they stay until the exchange after the next.
const uint8_t* exchange_bytes(const void* own, size_t bytes);

// Is called with what kernels ask to have in L2, where it is there: by several threads of the host at once.
extern std::function<void(const void* from, int num_bytes)> on_prefetch;

void run(const dim3& grid, const dim3& threads, size_t shared_bytes, const std::function<void()>& kernel);

// A launch as the runtime receives it.
struct RecordedLaunch {
  struct Argument {
    const std::type_info& type;
    std::span<const uint8_t> bytes;  // padding is zero
  };
  const void* kernel;
  const cudaLaunchConfig_t& config;
  std::vector<Argument> arguments;
};
// While this is set, it gets every launch, and no kernel runs.
extern std::function<void(const RecordedLaunch&)> on_launch;

template <typename T>
std::span<const uint8_t> bytes_without_padding(T& value) {
  if constexpr (!std::is_scalar_v<T>) __builtin_clear_padding(&value);
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

template <typename... Params, typename... Args>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  if (on_launch) {
    std::tuple<std::remove_cvref_t<Params>...> values(args...);
    std::apply(
        [&](auto&... each) {
          on_launch({reinterpret_cast<const void*>(kernel),
                     *config,
                     {{typeid(each), bytes_without_padding(each)}...}});
        },
        values);
    return cudaSuccess;
  }
  run(config->gridDim, config->blockDim, config->dynamicSmemBytes, [&] { kernel(args...); });
  return cudaSuccess;
}

}  // namespace nibble::emulated
