#include "backend/cuda/kernels.h"

namespace nibble::cuda {

void prepare_kernels() {
  prepare_embed();
  prepare_linear();
  prepare_attend();
  prepare_experts();
  prepare_prefill();
  prepare_sample();
}

}  // namespace nibble::cuda
