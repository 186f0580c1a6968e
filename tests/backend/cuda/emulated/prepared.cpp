#include "tests/backend/cuda/emulated/prepared.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>

namespace nibble::emulated {
namespace {

constexpr size_t kBytesOfEveryKernel{size_t{48} << 10};

struct Attributes {
  size_t shared_bytes{0};
  bool prefers_shared_memory{false};
};
std::mutex mutex;  // ranks prepare and launch in threads of their own
std::map<const void*, Attributes> all_attributes;

}  // namespace

void set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(mutex);
  Attributes& attributes = all_attributes[kernel];
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize)
    attributes.shared_bytes = static_cast<size_t>(value);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
    attributes.prefers_shared_memory = value == cudaSharedmemCarveoutMaxShared;
}

cudaError_t why_not_prepared(const void* kernel, const cudaLaunchConfig_t& config) {
  const std::lock_guard lock(mutex);
  const Attributes attributes = all_attributes[kernel];
  if (config.dynamicSmemBytes > std::max(kBytesOfEveryKernel, attributes.shared_bytes))
    return cudaErrorInvalidValue;
  const std::span launch_attributes(config.attrs, config.numAttrs);
  const bool is_of_step =
      std::any_of(launch_attributes.begin(), launch_attributes.end(), [](const cudaLaunchAttribute& each) {
        return each.id == cudaLaunchAttributeProgrammaticStreamSerialization;
      });
  return is_of_step && !attributes.prefers_shared_memory ? cudaErrorInvalidConfiguration : cudaSuccess;
}

}  // namespace nibble::emulated
