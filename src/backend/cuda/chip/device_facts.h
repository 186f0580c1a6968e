// Facts of the GPU, for records.
#pragma once

#include "backend/device_facts.h"

namespace nibble::cuda {

DeviceFacts device_facts();

}  // namespace nibble::cuda
