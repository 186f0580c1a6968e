#include "model/checkpoint/float_experts.h"

#include <fmt/format.h>

#include <string_view>

#include "core/error.h"
#include "formats/mxfp4.h"

namespace nibble {
namespace {

constexpr std::string_view kCodes{"_blocks"}, kScales{"_scales"}, kDown{"down_proj"}, kUp{"gate_up_proj"};

std::string without(std::string_view name, std::string_view ending) {
  if (name.ends_with(ending)) name.remove_suffix(ending.size());
  return std::string(name);
}

struct Orders {
  Shape transposed, plain;
};
Orders orders_of(uint64_t experts, uint64_t rows, uint64_t cols) {
  return {{experts, cols, rows}, {experts, rows, cols}};
}

// Whether a square matrix is stored transposed, which its shape does not show. It is transposed if the
// layer's other matrix is. If the other matrix is absent, it is transposed too, because transformers writes
// it so.
bool is_other_transposed(const Container& container, const std::string& name, const Orders& orders) {
  const bool is_down = name.ends_with(kDown);
  std::string other = name.substr(0, name.size() - (is_down ? kDown : kUp).size());
  other += is_down ? kUp : kDown;
  const Tensor* tensor = container.find(other);
  const uint64_t experts = orders.plain[0], rows = orders.plain[1], cols = orders.plain[2];
  const Orders others = is_down ? orders_of(experts, 2 * cols, rows) : orders_of(experts, cols, rows / 2);
  return !tensor || tensor->shape != others.plain;
}

bool is_float(const Tensor& tensor) {
  return tensor.dtype == DType::kBf16 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kF32;
}

// Returns experts that are stored in one tensor each, as unsloth splits them. `first`: the tensor of expert
// 0.
FloatExperts split_experts(const Container& container, const std::string& name, const Tensor* first,
                           const Shape& shape) {
  FloatExperts found;
  found.experts.rows.type = first->dtype;
  for (uint64_t e = 0; e < shape[0]; ++e) {
    const std::string of_expert = fmt::format("{}s.{}.weight", name, e);
    const Tensor* tensor = container.find(of_expert);
    if (!tensor)
      throw InputError("{}: tensor '{}' is missing, but '{}' is there",
                       container.files[first->file_index].string(), of_expert, first->name);
    if (!is_float(*tensor) || tensor->dtype != first->dtype || tensor->shape != Shape{shape[1], shape[2]})
      throw InputError("{}: tensor '{}' is {} {}; expected BF16, F16 or F32 [{}, {}], as for all experts",
                       container.files[tensor->file_index].string(), of_expert, tensor->dtype, tensor->shape,
                       shape[1], shape[2]);
    found.experts.rows.experts.push_back(tensor->data.data());
    found.tensors.push_back(tensor);
  }
  return found;
}

}  // namespace

std::optional<FloatExperts> find_float_experts(const Container& container, const TensorSpec& spec,
                                               const std::string& stored_name) {
  const std::string name = without(without(stored_name, kCodes), kScales);
  const Tensor* tensor = name == stored_name ? nullptr : container.find(name);
  const uint64_t experts = spec.shape[0], rows = spec.shape[1], cols = spec.shape[2] * kMxfp4BlockSize;
  if (const Tensor* first = container.find(name + "s.0.weight"); first && !tensor)
    return split_experts(container, name, first, {experts, rows, cols});
  if (!tensor) return std::nullopt;
  const Orders orders = orders_of(experts, rows, cols);
  const auto& [transposed, plain] = orders;
  const bool is_transposed =
      transposed == plain ? is_other_transposed(container, name, orders) : tensor->shape == transposed;
  if (!is_float(*tensor) || (tensor->shape != transposed && tensor->shape != plain))
    throw InputError(
        "{}: tensor '{}' is {} {}; experts are '{}_blocks' and '{}_scales' in MXFP4, or BF16, "
        "F16 or F32 {}, or {} if not transposed",
        container.files[tensor->file_index].string(), name, tensor->dtype, tensor->shape, name, name,
        transposed, plain);
  const size_t bytes = tensor->data.size() / experts;
  return FloatExperts{
      .experts = {.rows = {.type = tensor->dtype,
                           .experts = consecutive(tensor->data.data(), bytes, static_cast<int>(experts)),
                           .is_transposed = is_transposed}},
      .tensors = {tensor}};
}

}  // namespace nibble
