// Options of the CUDA backend only; setup/ passes them to it beside the BackendOptions.
#pragma once

namespace nibble::cuda {

struct CudaOptions {
  bool may_compile{true};  // the driver may compile PTX where there is no machine code for the GPU (images.h)
};

}  // namespace nibble::cuda
