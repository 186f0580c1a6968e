#include "model/checkpoint/split_experts.h"

#include <fmt/format.h>

#include "core/dtype.h"
#include "core/error.h"
#include "formats/ggml_blocks.h"

namespace nibble {
namespace {

constexpr std::string_view kExpertBias{"_bias"}, kRouter{".mlp.router."};

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

}  // namespace

std::string split_name(std::string_view name) {
  std::string split(name);
  if (const size_t at = split.find(kRouter); at != std::string::npos)
    split.insert(at + kRouter.size(), "linear.");
  return split;
}

std::string split_expert_name(std::string_view experts, int expert) {
  return fmt::format("{}s.{}.weight", experts, expert);
}

std::optional<SplitBiases> find_split_biases(const Container& container, const TensorSpec& spec) {
  if (!spec.name.ends_with(kExpertBias) || spec.shape.size() != 2) return std::nullopt;
  const std::string experts = spec.name.substr(0, spec.name.size() - kExpertBias.size());
  const auto name_of = [&](uint64_t expert) { return fmt::format("{}s.{}.bias", experts, expert); };
  if (!container.find(name_of(0))) return std::nullopt;
  const uint64_t count = spec.shape[0], rows = spec.shape[1];
  SplitBiases biases{Buffer(count * rows * sizeof(float)), {}};
  for (uint64_t expert = 0; expert < count; ++expert) {
    const Tensor* tensor = container.find(name_of(expert));
    if (!tensor)
      throw InputError("{}: tensor '{}' is missing: config.json says that a layer has {} experts",
                       container.files[0].string(), name_of(expert), count);
    const std::optional<GgmlType> type = float_type(tensor->dtype);
    if (!type || tensor->shape != Shape{rows})
      throw InputError("{}: tensor '{}' is {} {}; config.json requires BF16, F16 or F32 {}",
                       container.files[tensor->file_index].string(), tensor->name, tensor->dtype,
                       tensor->shape, Shape{rows});
    dequantise(*type, tensor->data, {biases.values.as<float>() + expert * rows, rows});
    biases.tensors.push_back(tensor);
  }
  return biases;
}

}  // namespace nibble
