// Facts of the GPU, for records.
#pragma once

#include "backend/device_facts.h"

namespace nibble::cuda {

// Returns what the GPU is, and its present state.
DeviceFacts device_facts();

}  // namespace nibble::cuda
