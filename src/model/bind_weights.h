// Binds named tensors to the fields of Weights. No other file knows which tensor becomes which field.
#pragma once

#include <functional>
#include <variant>

#include "core/dtype.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// A tensor in memory, row-major: BF16 or F32 where its spec says BF16, U8 where it says U8.
struct StoredTensor {
  const void* data;
  DType dtype;
};
// A tensor that Weights describes. Vectors are in memory; the blocks of experts' codes include the scales, whose own
// description is then ignored.
using DescribedTensor = std::variant<StoredTensor, Blocks, RandomWords>;

// Calls `describe` once for every tensor of the configuration, in the order of tensor_specs().
Weights bind_weights(const Config& config, const std::function<DescribedTensor(const TensorSpec&)>& describe);

}  // namespace nibble
