// Binds named tensors to the fields of Weights. Only this module knows which tensor becomes which field.
#pragma once

#include <functional>
#include <variant>

#include "core/tensors/dtype.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// A tensor in memory, row-major. `dtype` equals TensorSpec::dtype, with two exceptions: it may be F32 instead
// of BF16, and F8_E4M3 for a matrix with row scales.
struct StoredTensor {
  const void* data;
  DType dtype;
  const float* row_scales{nullptr};  // [rows], for F8_E4M3 only
};
// Storage of a tensor. Vectors are StoredTensors; matrices may also be ggml blocks (Blocks), matrices of
// another program (ForeignMatrix) or generated (RandomWords). For experts, the Blocks or StoredExperts of
// kCodes include the scales, and the description of kScales is ignored.
using DescribedTensor = std::variant<StoredTensor, Blocks, RandomWords, std::shared_ptr<const StoredExperts>,
                                     std::shared_ptr<const ForeignMatrix>>;

// Calls `describe` once for every tensor of the configuration, in the order of tensor_specs().
Weights bind_weights(const Config& config, const std::function<DescribedTensor(const TensorSpec&)>& describe);

}  // namespace nibble
