#include "model/checkpoint/split_experts.h"

#include "core/errors/error.h"
#include "core/tensors/dtype.h"
#include "formats/ggml_blocks.h"
#include "model/checkpoint/expert_modules.h"

namespace nibble {
namespace {

constexpr std::string_view kExpertBias{"_bias"}, kModuleBias{".bias"}, kRouter{".mlp.router."};

std::optional<GgmlType> float_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return GgmlType::kBf16;
    case DType::kF16:
      return GgmlType::kF16;
    case DType::kF32:
      return GgmlType::kF32;
    default:
      return std::nullopt;
  }
}

const Tensor& bias_of(const Container& container, const std::string& module, const Shape& shape) {
  const std::string name = module + std::string(kModuleBias);
  const Tensor* tensor = container.find(name);
  if (!tensor)
    throw InputError("{}: tensor '{}' is missing: config.json says how many experts a layer has",
                     container.files[0].string(), name);
  if (!float_type(tensor->dtype) || tensor->shape != shape)
    throw InputError("{}: tensor '{}' is {} {}; config.json requires BF16, F16 or F32 {}",
                     container.files[tensor->file_index].string(), name, tensor->dtype, tensor->shape, shape);
  return *tensor;
}

}  // namespace

std::string split_name(std::string_view name) {
  std::string split(name);
  if (const size_t at = split.find(kRouter); at != std::string::npos)
    split.insert(at + kRouter.size(), "linear.");
  return split;
}

std::optional<SplitBiases> find_split_biases(const Container& container, const TensorSpec& spec) {
  if (!spec.name.ends_with(kExpertBias) || spec.shape.size() != 2) return std::nullopt;
  const std::string experts = spec.name.substr(0, spec.name.size() - kExpertBias.size());
  const uint64_t count = spec.shape[0], rows = spec.shape[1];
  const auto modules = find_expert_modules(container, experts, count, {kModuleBias});
  if (!modules) return std::nullopt;
  SplitBiases biases{Buffer(count * rows * sizeof(float)), {}};
  const uint64_t parts = modules->odd_rows.empty() ? 1 : 2, part_rows = rows / parts;
  const Shape shape = modules->has_all ? Shape{count, part_rows} : Shape{part_rows};
  const uint64_t in_module = modules->has_all ? count * part_rows : part_rows;
  std::vector<float> values(in_module);
  for (uint64_t part = 0; part < parts; ++part) {
    float* to = biases.values.as<float>() + part;
    for (const std::string& module : part == 0 ? modules->rows : modules->odd_rows) {
      const Tensor& tensor = bias_of(container, module, shape);
      dequantise(*float_type(tensor.dtype), tensor.data, values);
      for (const float value : values) {
        *to = value;
        to += parts;
      }
      biases.tensors.push_back(&tensor);
    }
  }
  return biases;
}

}  // namespace nibble
