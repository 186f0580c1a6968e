#include "tests/backend/cuda/emulated/prepared.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace nibble::emulated {
namespace {

constexpr size_t kBytesOfEveryKernel{size_t{48} << 10};

std::mutex mutex;  // ranks prepare and launch in their own threads
std::map<const void*, size_t> allowed_bytes;

}  // namespace

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return;
  const std::lock_guard lock(mutex);
  allowed_bytes[kernel] = static_cast<size_t>(value);
}

cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config) {
  const std::lock_guard lock(mutex);
  const auto found = allowed_bytes.find(kernel);
  const size_t allowed = found == allowed_bytes.end() ? 0 : found->second;
  return config.dynamicSmemBytes > std::max(kBytesOfEveryKernel, allowed) ? cudaErrorInvalidValue
                                                                          : cudaSuccess;
}

}  // namespace nibble::emulated
