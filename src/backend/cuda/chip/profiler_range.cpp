#include "backend/cuda/chip/profiler_range.h"

#include <nvtx3/nvToolsExt.h>

namespace nibble::cuda {
namespace {

// Returns the NVTX domain of nibble's ranges; null if no profiler is attached.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("nibble");
  return handle;
}

}  // namespace

bool has_profiler() { return domain() != nullptr; }

ProfilerRange::ProfilerRange(const char* name) {
  if (!has_profiler()) return;
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

ProfilerRange::~ProfilerRange() {
  if (has_profiler()) nvtxDomainRangePop(domain());
}

}  // namespace nibble::cuda
