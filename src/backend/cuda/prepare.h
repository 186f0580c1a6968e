// Sets kernel attributes, such as the limit of dynamic shared memory.
#pragma once

namespace nibble::cuda {

// Sets the attributes of all kernels on the calling thread's GPU. Call it once per GPU before the first
// launch.
void prepare_kernels();

}  // namespace nibble::cuda
