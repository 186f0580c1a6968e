// Converts matrices of a checkpoint to FP8 as compressed-tensors stores it, and back.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/numbers/bf16.h"
#include "core/numbers/e4m3.h"
#include "core/text/json.h"
#include "model/quantize.h"
#include "tests/model/small_model.h"

namespace nibble {

struct Fp8Scales {
  bool is_per_row{true};
  DType dtype{DType::kBf16};
  bool is_power_of_two{false};  // rounds scales up to a power of two, so that BF16 holds the values exactly
};

inline std::vector<float> float_values(const OwnedTensor& tensor) {
  std::vector<float> values(*num_elements(tensor.shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == DType::kF32) {
      std::memcpy(&values[i], &tensor.bytes.at(4 * i), 4);
    } else {
      Bf16 value{};
      std::memcpy(&value, &tensor.bytes.at(2 * i), 2);
      values[i] = to_float(value);
    }
  }
  return values;
}

inline OwnedTensor float_tensor(const std::vector<float>& values, const Shape& shape, DType dtype) {
  OwnedTensor tensor{dtype, shape, std::vector<std::byte>(values.size() * (dtype == DType::kF32 ? 4 : 2))};
  for (size_t i = 0; i < values.size(); ++i) {
    const Bf16 narrow = to_bf16(values[i]);
    if (dtype == DType::kF32)
      std::memcpy(&tensor.bytes[4 * i], &values[i], 4);
    else
      std::memcpy(&tensor.bytes[2 * i], &narrow, 2);
  }
  return tensor;
}

// Quantises LAYER.weight (BF16) to E4M3, and adds LAYER.weight_scale: the largest magnitude divided by 448.
inline void make_fp8(OwnedTensors& tensors, const std::string& layer, const Fp8Scales& scales) {
  OwnedTensor& weight = tensors.at(layer + ".weight");
  const std::vector<float> values = float_values(weight);
  const uint64_t rows = weight.shape[0], cols = weight.shape[1];
  const uint64_t scale_rows = scales.is_per_row ? 1 : rows;  // number of rows that share a scale
  weight = {DType::kF8E4M3, {rows, cols}, std::vector<std::byte>(values.size())};
  std::vector<float> stored;
  for (uint64_t row = 0; row < rows; row += scale_rows) {
    const std::span part = std::span(values).subspan(row * cols, scale_rows * cols);
    std::vector<uint8_t> codes(part.size());
    float scale = quantise_e4m3(part, codes);
    if (scales.dtype == DType::kBf16) {
      scale = to_float(to_bf16(scale));
      if (scales.is_power_of_two) scale = std::exp2(std::ceil(std::log2(scale)));
      std::ranges::transform(part, codes.begin(), [&](float x) { return to_e4m3(x / scale).bits; });
    }
    std::memcpy(&weight.bytes[row * cols], codes.data(), codes.size());
    stored.push_back(scale);
  }
  tensors[layer + ".weight_scale"] =
      float_tensor(stored, scales.is_per_row ? Shape{rows, 1} : Shape{1}, scales.dtype);
}

// Replaces LAYER.weight by its values in F32 or BF16, and removes its scales.
inline void undo_fp8(OwnedTensors& tensors, const std::string& layer, DType dtype = DType::kF32) {
  OwnedTensor& weight = tensors.at(layer + ".weight");
  const std::vector<float> scales = float_values(tensors.at(layer + ".weight_scale"));
  const uint64_t cols = weight.shape[1];
  std::vector<float> values;
  for (size_t i = 0; i < weight.bytes.size(); ++i)
    values.push_back(to_float(E4m3{std::to_integer<uint8_t>(weight.bytes[i])}) *
                     scales[scales.size() == 1 ? 0 : i / cols]);
  weight = float_tensor(values, weight.shape, dtype);
  tensors.erase(layer + ".weight_scale");
}

// Returns the names of the layers that may be FP8, without ".weight".
inline std::vector<std::string> fp8_layers(int num_layers) {
  std::vector<std::string> layers{"lm_head"};
  for (int n = 0; n < num_layers; ++n)
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      layers.push_back(fmt::format("model.layers.{}.self_attn.{}", n, name));
  return layers;
}

// Returns the `quantization_config` of compressed-tensors for FP8 weights with dynamic FP8 activations.
inline nlohmann::json fp8_quantization() {
  return nlohmann::json::parse(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
    "quantization_status": "compressed", "global_compression_ratio": null, "ignore": ["model.embed_tokens"],
    "kv_cache_scheme": null, "sparsity_config": {}, "transform_config": {}, "version": "0.10.2",
    "config_groups": {"group_0": {"targets": ["Linear"], "output_activations": null,
      "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true},
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true, "dynamic": false,
        "group_size": null, "block_structure": null, "actorder": null, "observer": "minmax",
        "observer_kwargs": {}}}}})");
}
inline std::string with_fp8_quantization(const std::string& config) {
  nlohmann::json object = nlohmann::json::parse(config);
  object["quantization_config"] = fp8_quantization();
  return object.dump();
}

}  // namespace nibble
