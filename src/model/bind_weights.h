// Binds named tensors to the fields of Weights. Only this module knows which tensor becomes which field.
#pragma once

#include <functional>
#include <variant>

#include "core/dtype.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// A tensor in memory, row-major. Its dtype is BF16 or F32 if its spec says BF16, and U8 if its spec says U8.
struct StoredTensor {
  const void* data;
  DType dtype;
};
// How a tensor is stored: vectors are in memory; matrices may also be blocks or generated. Blocks of experts'
// codes include the scales, whose own entry is then ignored.
using DescribedTensor = std::variant<StoredTensor, Blocks, RandomWords>;

// Calls `describe` once for every tensor of the configuration, in the order of tensor_specs().
Weights bind_weights(const Config& config, const std::function<DescribedTensor(const TensorSpec&)>& describe);

}  // namespace nibble
