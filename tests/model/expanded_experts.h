// Replaces a checkpoint's MXFP4 experts by their values, as transformers saves a dequantised model.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"
#include "core/numbers/f16.h"
#include "formats/ggml_blocks.h"
#include "formats/mxfp4.h"
#include "tests/model/small_model.h"

namespace nibble {

// Decodes the values of `num_experts` consecutive matrices, row by row.
inline std::vector<float> values_of(const Matrix& first, int num_experts) {
  const size_t rows = static_cast<size_t>(num_experts) * static_cast<size_t>(first.rows),
               cols = static_cast<size_t>(first.cols);
  std::vector<float> values(rows * cols);
  if (const Blocks* blocks = first.blocks()) {
    for (size_t row = 0; row < rows; ++row)
      dequantise(blocks->type, row_of(*blocks, row, cols), std::span(values).subspan(row * cols, cols));
    return values;
  }
  const Elements& elements = first.elements();
  const auto* bytes = static_cast<const uint8_t*>(elements.data);
  if (elements.format == Format::kMxfp4) {
    decode_mxfp4({bytes, values.size() / 2}, {elements.scales, values.size() / 32}, values);
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = elements.format == Format::kE4m3  ? to_float(E4m3{bytes[i]}) * elements.row_scales[i / cols]
                : elements.format == Format::kF32 ? static_cast<const float*>(elements.data)[i]
                                                  : to_float(static_cast<const Bf16*>(elements.data)[i]);
  return values;
}

inline OwnedTensor as_dtype(const std::vector<float>& values, const Shape& shape, DType dtype) {
  OwnedTensor tensor{dtype, shape, std::vector<std::byte>(values.size() * (dtype == DType::kF32 ? 4 : 2))};
  for (size_t i = 0; i < values.size(); ++i) {
    const Bf16 bf16 = to_bf16(values[i]);
    const F16 f16 = to_f16(values[i]);
    if (dtype == DType::kF32)
      std::memcpy(&tensor.bytes[4 * i], &values[i], 4);
    else
      std::memcpy(&tensor.bytes[2 * i], dtype == DType::kF16 ? &f16.bits : &bf16.bits, 2);
  }
  return tensor;
}

struct Order {  // how a file stores a tensor of experts
  DType dtype;
  bool is_transposed;  // [E, cols, rows], as transformers writes it
};

inline OwnedTensor expanded(const Matrix& first, int num_experts, const Order& order) {
  const auto experts = static_cast<uint64_t>(num_experts), rows = static_cast<uint64_t>(first.rows),
             cols = static_cast<uint64_t>(first.cols);
  std::vector<float> values = values_of(first, num_experts);
  if (!order.is_transposed) return as_dtype(values, {experts, rows, cols}, order.dtype);
  const std::vector<float> plain = values;
  for (uint64_t e = 0; e < experts; ++e)
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < cols; ++c)
        values[(e * cols + c) * rows + r] = plain[(e * rows + r) * cols + c];
  return as_dtype(values, {experts, cols, rows}, order.dtype);
}

// Replaces the MXFP4 experts in `tensors` by experts that are stored as `order` says. `original`: the weights
// of the same checkpoint.
inline void expand_experts(OwnedTensors& tensors, const Weights& original, const Order& order) {
  for (size_t n = 0; n < original.layers.size(); ++n) {
    const LayerWeights& layer = original.layers[n];
    for (const auto& [name, first] :
         {std::pair("gate_up_proj", &layer.gate_up.first), std::pair("down_proj", &layer.down.first)}) {
      const std::string tensor = fmt::format("model.layers.{}.mlp.experts.{}", n, name);
      tensors.erase(tensor + "_blocks");
      tensors.erase(tensor + "_scales");
      tensors[tensor] = expanded(*first, original.config.num_experts, order);
    }
  }
}

}  // namespace nibble
