// Name, sizes, clocks and power of the GPU, for benchmark records.
#pragma once

#include "backend/device_facts.h"

namespace nibble::cuda {

DeviceFacts device_facts();

}  // namespace nibble::cuda
