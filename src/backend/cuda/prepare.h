// Sets kernel attributes, such as the limit of dynamic shared memory.
#pragma once

namespace nibble::cuda {

// Call it once per GPU before the first launch.
void prepare_kernels();

}  // namespace nibble::cuda
