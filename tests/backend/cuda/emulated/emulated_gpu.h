// A GPU emulated on the CPU, for tests. It runs kernels compiled as C++, with C++ versions (twins/) of the
// functions that are written in PTX. A CTA is a host thread, so its __shared__ variables are thread_local
// variables. Its GPU threads are fibers that yield to each other where they wait. Up to kMostResidents CTAs
// run at the same time, because CTAs may wait for each other. The remaining CTAs run afterwards. A launch has
// ended when the call returns.
//
// Tests on the emulated GPU check what a kernel computes and whether the kernel ends. They say nothing about
// speed. They find few races, because the lanes of a warp run one after another until they exchange values;
// the order of warps varies.
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

// Indices of the GPU thread that runs now and of its CTA, and the sizes of CTA and grid.
extern constinit thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace nibble::emulated {

// Dynamic shared memory of the current CTA.
struct SharedMemory {
  uint8_t* bytes{nullptr};
  uint32_t num_bytes{0};
};
extern constinit thread_local SharedMemory shared_memory;

// Lets other threads of the CTA run, and sometimes other CTAs. Every polling loop calls yield().
void yield();
void sync_cta();
// Synchronises `num_threads` threads of the CTA (whole warps) at the given barrier.
void sync_some(int barrier, int num_threads);

inline constexpr size_t kExchangeBytes{64};
inline constexpr unsigned kMostResidents{16};
// Publishes `bytes` bytes of the calling lane. Returns the bytes of all lanes of its warp; those of lane n
// begin at n * kExchangeBytes. The returned bytes are valid until the exchange after the next one.
const uint8_t* exchange_bytes(const void* own, size_t bytes);

// If set, called for each L2 prefetch of a kernel. Several host threads may call it at the same time.
extern std::function<void(const void* from, int num_bytes)> on_prefetch;

void run(const dim3& grid, const dim3& threads, size_t shared_bytes, const std::function<void()>& kernel);

// A launch: the kernel, and the configuration and arguments that the runtime's launch function gets.
struct RecordedLaunch {
  struct Argument {
    const std::type_info& type;
    std::span<const uint8_t> bytes;  // of the value; padding bytes are 0
  };
  const void* kernel;
  const cudaLaunchConfig_t& config;
  std::vector<Argument> arguments;
};
// If set, this function is called with every launch, and no kernel runs.
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
