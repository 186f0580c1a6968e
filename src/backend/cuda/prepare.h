// Sets the shared memory limits of all kernels.
#pragma once

namespace nibble::cuda {

// Must be called once per GPU, before the first launch.
void prepare_kernels();

}  // namespace nibble::cuda
