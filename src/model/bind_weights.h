// Binds named tensors to the fields of Weights. No other file knows which tensor becomes which field.
#pragma once

#include <functional>

#include "core/dtype.h"
#include "model/config.h"
#include "model/weights.h"

namespace nibble {

// Where a tensor's elements lie, row-major: BF16 or F32 where its spec says BF16, U8 where it says U8.
struct StoredTensor {
  const void* data;
  DType dtype;
  StoredBlocks blocks{};  // of a matrix; of experts' codes, scales included
};

// Calls `locate` once for every tensor of the configuration, in the order of tensor_specs().
Weights bind_weights(const Config& config, const std::function<StoredTensor(const TensorSpec&)>& locate);

}  // namespace nibble
