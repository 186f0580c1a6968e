// Sets the shared-memory limits of all kernels.
#pragma once

namespace nibble::cuda {

// Call it once per GPU, before the first launch.
void prepare_kernels();

}  // namespace nibble::cuda
